import type { Via } from '#database/schema.ts'
import type { Actor, Event } from '#events/events.ts'
import type { PushedUpdate } from '#git/refs/refs.ts'
import type { AllowedLeak } from '../leak-guard/leak-guard.ts'
import type { DefaultBranchChange } from './push-store.ts'

type About = { actor: Actor; repositoryId: string }

/** The events of a push: one for each ref. */
export function toPushEvents(
  {
    actor,
    repositoryId,
    pushId,
    via,
    name,
  }: About & { pushId: string; via: Via | ''; name: string },
  updates: PushedUpdate[],
): Event[] {
  return updates.map((update) => {
    const data = { ...update, pushId, via, repositoryName: name }
    return { kind: 'push', actor, repositoryId, data }
  })
}

/** The event of a push that contains allowed findings of the leak guard. */
export function toLeakEvent(
  {
    actor,
    repositoryId,
    ...about
  }: About & { pushId: string; via: Via | ''; repositoryName: string },
  findings: AllowedLeak[],
): Event {
  return { kind: 'push.leak_allowed', actor, repositoryId, data: { ...about, findings } }
}

export function toDefaultBranchEvent(about: About, { former, branch }: DefaultBranchChange): Event {
  return { kind: 'repository.default_branch', ...about, data: { branch, formerBranch: former } }
}
