import type { Via } from '../../database/schema.ts'
import type { Actor, Event } from '../../events/events.ts'
import type { PushedUpdate } from '../../git/refs/refs.ts'
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

export function toDefaultBranchEvent(about: About, { former, branch }: DefaultBranchChange): Event {
  return { kind: 'repository.default_branch', ...about, data: { branch, formerBranch: former } }
}
