import type { EventData } from '#events/events.ts'
import type { About, Payload } from '#events/github-payloads/about.ts'
import { toPayloadCommit } from '#events/github-payloads/commits.ts'
import { fitNewest } from '#events/github-payloads/fit-newest.ts'
import { pushPayload } from '#events/github-payloads/push-payload.ts'
import type { PushedCommits } from '#git/objects/pushed-commits.ts'
import { byteLength, sharedMaxBytes } from './body-size.ts'
import { type Mask, maskCommit } from './mask.ts'

const noFiles = { added: [], removed: [], modified: [] }

/** The body of a push without `svc`. Commits that do not fit are dropped, the oldest first. */
export function pushBody(
  { update, pushed }: { update: EventData['push']; pushed: PushedCommits },
  { about, mask }: { about: About; mask: Mask },
): Payload {
  const head = pushed.head && maskCommit(pushed.head, mask)
  const baseRef = baseOf(pushed.branches, update.ref, about.repository.defaultBranch)
  const payload = pushPayload(update, { commits: [], head, baseRef }, about)
  const commits = pushed.commits.map((commit) => {
    const masked = commit === pushed.head && head ? head : maskCommit(commit, mask)
    return {
      whole: toPayloadCommit(masked, about),
      short: toPayloadCommit({ ...masked, files: noFiles }, about),
    }
  })
  const { items, isWhole } = fitNewest(commits, sharedMaxBytes - byteLength(payload))
  return { ...payload, commits: items, truncated: !(pushed.isWhole && isWhole) }
}

// The branch that a new ref was most likely created from.
function baseOf(branches: string[], ref: string, defaultBranch: string): string | undefined {
  const others = branches.filter((branch) => branch !== ref).sort()
  const defaultRef = `refs/heads/${defaultBranch}`
  return others.includes(defaultRef) ? defaultRef : others[0]
}
