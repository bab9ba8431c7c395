// A push that moves many refs counts as several: each ref is a loose file until it is packed, and slows reads like a pack.
const refsPerPush = 4

type LoggedEvent = { kind: string; repositoryId: string | null; data: string }

type PushWeights = {
  /** The weight of the pushes and imports of each repository. */
  weights: Map<string, number>
  /** Repositories with pushes. */
  pushed: Set<string>
}

/** Weighs the pushes and imports among events; an import counts as `importWeight`. */
export function weighPushes(events: LoggedEvent[], importWeight: number): PushWeights {
  const imported = new Set<string>()
  const refsOf = new Map<string, Map<string, number>>()
  for (const { kind, repositoryId, data } of events) {
    if (repositoryId === null) continue
    if (kind === 'repository.imported') imported.add(repositoryId)
    // A push has one event per ref.
    if (kind === 'push') {
      const { pushId } = JSON.parse(data)
      const refs = refsOf.get(repositoryId) ?? new Map<string, number>()
      refsOf.set(repositoryId, refs.set(pushId, (refs.get(pushId) ?? 0) + 1))
    }
  }
  const weights = new Map<string, number>()
  for (const id of new Set([...refsOf.keys(), ...imported])) {
    const pushes = [...(refsOf.get(id)?.values() ?? [])].map((refs) =>
      Math.ceil(refs / refsPerPush),
    )
    const weight = pushes.reduce((sum, push) => sum + push, imported.has(id) ? importWeight : 0)
    weights.set(id, weight)
  }
  return { weights, pushed: new Set(refsOf.keys()) }
}
