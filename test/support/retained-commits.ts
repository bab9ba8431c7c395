import { retainedRef, retainingPush } from '#git/refs/ref-name.ts'
import { isOverwriting } from '#git/refs/refs.ts'
import type { PushEvent } from './push-records.ts'

/** Parts the refs of a repository into those that clients see and those that keep what pushes overwrote. */
export function partRefs(all: Map<string, string>) {
  const isKept = ([ref]: [string, string]) => retainingPush(ref) !== undefined
  const kept = new Map([...all].filter(isKept))
  return { visible: new Map([...all].filter((entry) => !isKept(entry))), kept }
}

/** The differences between the retained commits and those that pushes overwrote, by the events. */
export function keptFaults(kept: Map<string, string>, events: PushEvent[]): string[] {
  const overwritten = events.filter(isOverwriting)
  const expected = new Map(
    overwritten.map((event) => [retainedRef(event.pushId, event), event.before]),
  )
  const names = new Set([...kept.keys(), ...expected.keys()])
  return [...names]
    .filter((ref) => kept.get(ref) !== expected.get(ref))
    .map((ref) => `${ref} is ${kept.get(ref)} instead of ${expected.get(ref)}`)
}
