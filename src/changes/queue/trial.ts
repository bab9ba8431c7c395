import type { QueuedChangeRow } from '#database/schema.ts'
import type { Actor } from '#events/events.ts'

/** A change of a trial, in the version that is tried. */
type TriedChange = {
  number: number
  version: number
  /** Who has put it into the queue, and when at last. */
  by: Actor
  queuedAt: number
}

/** A commit that is tried: the branch with some changes, each merged into the result of those before. */
export type Trial = {
  id: string
  /** Whether the branch is to move to it, or it only shows which changes are to blame. */
  kind: 'land' | 'probe'
  /** The commit of the branch that it begins at. */
  base: string
  /** Empty until it is made. */
  commit: string
  changes: TriedChange[]
  runIds: string[]
  startedAt: number
}

/** Changes that have failed together, and not alone so far. */
export type Doubt = { numbers: number[]; detail: string }

/** What a branch waits for. */
export type QueueWork = { trials: Trial[]; doubts: Doubt[] }

/** What of a change in the queue decides in which trial it takes part. */
type Standing = Pick<QueuedChangeRow, 'number' | 'standing' | 'failures' | 'urgent'>

/** How many changes are tried together. */
export const maxSize = 32
/** How many probes run at a time. */
const maxProbes = 8
/** How many new changes a probe tries: if one of twenty is broken and one fails by chance, two of three such groups succeed. */
const newGroupSize = 4
/** How often a change may fail alone. */
const maxFailures = 2

/**
 * Chooses the changes that are tried together to land: those that have succeeded in a probe, or else new ones. Undefined while
 * others are tried to land, or when there are none.
 */
export function chooseLanding<Entry extends Standing>(
  entries: readonly Entry[],
  trials: readonly Trial[],
  size: number,
): Entry[] | undefined {
  if (trials.some(({ kind }) => kind === 'land')) return undefined
  const free = withoutTried(entries, trials)
  const of = (standing: Standing['standing']) => free.filter((one) => one.standing === standing)
  const urgent = free.filter((one) => one.urgent !== 0 && isUntroubled(one))
  const [chosen] = [urgent, of('proven'), of('new')].filter(({ length }) => length > 0)
  return chosen?.slice(0, size)
}

/**
 * Chooses the changes of further probes: a suspect alone, and others that have failed together in groups. While a change is in
 * trouble, new ones are probed as well instead of waiting for their turn, so that those that succeed land together.
 */
export function chooseProbes<Entry extends Standing>(
  entries: readonly Entry[],
  trials: readonly Trial[],
): Entry[][] {
  const free = withoutTried(entries, trials)
  const spare = maxProbes - trials.filter(({ kind }) => kind === 'probe').length
  const alone = free.filter(({ standing }) => standing === 'suspect').slice(0, spare)
  const questioned = free.filter(({ standing }) => standing === 'questioned')
  const left = spare - alone.length
  const divided = left > 0 ? inGroups(questioned, Math.ceil(questioned.length / left)) : []
  const isTroubled = entries.some(({ standing }) => standing !== 'new')
  const isLanding = trials.some(({ kind }) => kind === 'land')
  const waiting = free.filter(({ standing, urgent }) => standing === 'new' && urgent === 0)
  const added = isTroubled && isLanding ? inGroups(waiting, newGroupSize) : []
  return [...alone.map((one) => [one]), ...divided, ...added].slice(0, spare)
}

function inGroups<Item>(items: readonly Item[], size: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / Math.max(size, 1)) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  )
}

/** Whether a change has not failed, alone or with others, as far as that is not explained. */
export function isUntroubled({ standing }: Pick<Standing, 'standing'>): boolean {
  return standing === 'new' || standing === 'proven'
}

function withoutTried<Entry extends Standing>(
  entries: readonly Entry[],
  trials: readonly Trial[],
): Entry[] {
  const tried = new Set(trials.flatMap(({ changes }) => changes.map(({ number }) => number)))
  return entries.filter(({ number }) => !tried.has(number))
}

/** What the end of a trial says of one of its changes. */
export type Verdict = { number: number; standing: Standing['standing']; failures: number } | 'out'

/** What a trial says of its changes that has failed, or has succeeded without landing. */
export function judgeChanges<Entry extends Standing>(
  { kind }: Pick<Trial, 'kind'>,
  tried: readonly Entry[],
  hasSucceeded: boolean,
): { verdicts: Map<Entry, Verdict>; isDivided: boolean } {
  const areProven = tried.every(({ standing }) => standing === 'proven')
  // Each alone has succeeded, so that half of them are tried to land.
  const isDivided = !hasSucceeded && kind === 'land' && tried.length > 1 && areProven
  const verdictOn = (entry: Entry): Verdict => {
    const { number, failures, standing } = entry
    if (hasSucceeded) return { number, failures, standing: 'proven' }
    if (tried.length > 1) {
      const next = kind === 'probe' ? 'suspect' : standing === 'new' ? 'questioned' : standing
      return { number, failures, standing: next }
    }
    return failures + 1 < maxFailures
      ? { number, failures: failures + 1, standing: 'suspect' }
      : 'out'
  }
  return { verdicts: new Map(tried.map((entry) => [entry, verdictOn(entry)])), isDivided }
}
