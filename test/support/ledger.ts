import type { PushEvent } from './push-records.ts'

const zeroId = '0'.repeat(40)

/** A ref that only one client changes at a time, or one over which several compete. */
export type RefChange = { ref: string; after: string; isShared?: boolean }

type Entry = RefChange & {
  repositoryId: string
  begun: number
  /** When the response came; infinity for a push with an unknown outcome. */
  ended: number
}

/** The requested and acknowledged values of refs, and so the possible and required ones. */
export function createLedger() {
  const settled = new Map<string, string>()
  const forgotten = new Set<string>()
  let entries: Entry[] = []
  let moment = 0

  const entriesOf = (repositoryId: string, ref: string) =>
    entries.filter((entry) => entry.repositoryId === repositoryId && entry.ref === ref)

  const settledValue = (repositoryId: string, ref: string) =>
    settled.get(`${repositoryId} ${ref}`) ?? zeroId

  /** The values that a ref may have: what was acknowledged last, and what was asked for since. */
  function possibleValues(repositoryId: string, ref: string): string[] {
    const all = entriesOf(repositoryId, ref)
    const lastAnswered = all.filter(({ ended }) => ended < Number.POSITIVE_INFINITY)
    const isReplaced = (ended: number) => lastAnswered.some(({ begun }) => begun > ended)
    const values = all.filter(({ ended }) => !isReplaced(ended)).map(({ after }) => after)
    return lastAnswered.length > 0 ? values : [settledValue(repositoryId, ref), ...values]
  }

  function faultsOf(
    repositoryId: string,
    ref: string,
    value: string,
    events: PushEvent[],
  ): string[] {
    const faults: string[] = []
    const recorded = events.filter(
      (event) => event.repositoryId === repositoryId && event.ref === ref,
    )
    const possible = possibleValues(repositoryId, ref)
    if (!possible.includes(value)) {
      faults.push(`${ref} is ${value}, not one of ${possible.join(', ')}`)
    }
    const changes = entriesOf(repositoryId, ref)
    const answered = changes.filter(({ ended }) => ended < Number.POSITIVE_INFINITY)
    for (const { after } of answered) {
      const isSame = (change: { after: string }) => change.after === after
      if (recorded.filter(isSame).length >= answered.filter(isSame).length) continue
      faults.push(`${ref} became ${after}, which was acknowledged and has no event`)
    }
    const explained = changes.some(({ isShared }) => isShared)
      ? [settledValue(repositoryId, ref), ...recorded.map(({ after }) => after)]
      : [recorded.at(-1)?.after ?? settledValue(repositoryId, ref)]
    if (!explained.includes(value)) {
      faults.push(`${ref} is ${value}, but the events say ${explained.join(', ')}`)
    }
    return faults.map((fault) => `${repositoryId}: ${fault}`)
  }

  return {
    /** Notes that changes are being asked for; `acknowledge` when they were answered. */
    ask(repositoryId: string, changes: RefChange[]): { acknowledge: () => void } {
      const begun = moment++
      const asked = changes.map((change): Entry => {
        return { ...change, repositoryId, begun, ended: Number.POSITIVE_INFINITY }
      })
      entries.push(...asked)
      return {
        acknowledge() {
          const ended = moment++
          for (const entry of asked) entry.ended = ended
        },
      }
    },

    /** Whether a ref is there beyond doubt. */
    isThere: (repositoryId: string, ref: string): boolean =>
      !possibleValues(repositoryId, ref).includes(zeroId),

    /** Expects nothing any more of a repository that is, or may be, deleted. */
    forget(repositoryId: string): void {
      forgotten.add(repositoryId)
      entries = entries.filter((entry) => entry.repositoryId !== repositoryId)
      for (const key of settled.keys()) if (key.startsWith(`${repositoryId} `)) settled.delete(key)
    },

    /** Compares a repository's refs and the events since the last time with what is known; the faults. */
    settle(repositoryId: string, refs: Map<string, string>, events: PushEvent[]): string[] {
      const about = entries.filter((entry) => entry.repositoryId === repositoryId)
      const known = [...settled.keys()].filter((key) => key.startsWith(`${repositoryId} `))
      const names = new Set([
        ...refs.keys(),
        ...about.map(({ ref }) => ref),
        ...known.map((key) => key.slice(repositoryId.length + 1)),
      ])
      const faults = forgotten.delete(repositoryId)
        ? []
        : [...names].flatMap((ref) => faultsOf(repositoryId, ref, refs.get(ref) ?? zeroId, events))
      entries = entries.filter((entry) => entry.repositoryId !== repositoryId)
      for (const ref of names) settled.set(`${repositoryId} ${ref}`, refs.get(ref) ?? zeroId)
      return faults
    },
  }
}
