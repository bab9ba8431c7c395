import type { Fixtures } from './fixtures.ts'
import type { Hosts } from './host.ts'
import {
  type Addresses,
  type Effort,
  measureBigPush,
  measureClone,
  measureFetch,
  measureListing,
  measureSmallPush,
  publish,
  type Result,
} from './operations.ts'
import { say } from './output.ts'
import type { Workspace } from './workspace.ts'

/** Rounds per operation, and the approximate limit of seconds for each. */
type Rounds = { listings: number; clones: number; smallPushes: number; seconds: number }

export type HttpEffort = Rounds & { fetches: number; bigPushes: number }
export type SshEffort = Rounds & { bigClones: number }

const commitPush = 'push of a commit'

/** Measures the operations of a git client over HTTP. */
export async function compareOverHttp(
  workspace: Workspace,
  hosts: Hosts,
  options: {
    fixtures: Fixtures
    effort: HttpEffort
    /** Of the history: at all hosts that accept pushes, and at all hosts that serve fetches. */
    addresses: Addresses
    readers: Addresses
    /** Of a repository with 100,000 refs. */
    manyRefs: Addresses
  },
): Promise<Result[]> {
  const { fixtures, effort, addresses, readers, manyRefs } = options
  const { bulk, bulkMib: mib } = fixtures
  const upTo = toEffort(effort)
  const smallPush = { ...fixtures, ...upTo(effort.smallPushes) }
  const intoMany = { ...smallPush, operation: `${commitPush} into 100,000 refs` }
  return [
    await measureListing(workspace, readers, upTo(effort.listings)),
    await measureFetch(workspace, readers, upTo(effort.fetches)),
    await measureClone(workspace, readers, { operation: 'clone', ...upTo(effort.clones) }),
    await measureSmallPush(workspace, addresses, { ...smallPush, operation: commitPush }),
    await measureSmallPush(workspace, manyRefs, intoMany),
    await measureBigPush(workspace, hosts, { bulk, mib, ...upTo(effort.bigPushes) }),
  ]
}

/** Measures the operations of a git client over SSH. */
export async function compareOverSsh(
  workspace: Workspace,
  hosts: Hosts,
  { fixtures, effort }: { fixtures: Fixtures; effort: SshEffort },
): Promise<Result[]> {
  const { bulk, bulkMib } = fixtures
  const upTo = toEffort(effort)
  const { svc, peer, defaults } = await publishHistory(workspace, hosts, fixtures)
  const addressesOfBulk = {
    svc: await publish(workspace, hosts.svc, bulk),
    peer: await publish(workspace, hosts.peer, bulk),
  }
  const bigClone = { operation: `clone of ${bulkMib} MiB`, ...upTo(effort.bigClones) }
  const smallPush = { ...fixtures, ...upTo(effort.smallPushes), operation: commitPush }
  return [
    await measureListing(workspace, { svc, peer }, upTo(effort.listings)),
    await measureFetch(workspace, { svc, peer }, upTo(effort.listings)),
    await measureClone(workspace, { svc, peer }, { operation: 'clone', ...upTo(effort.clones) }),
    await measureSmallPush(workspace, { svc, peer, defaults }, smallPush),
    await measureClone(workspace, addressesOfBulk, bigClone),
  ]
}

export async function publishHistory(workspace: Workspace, hosts: Hosts, { history }: Fixtures) {
  say('Pushing the history to all hosts')
  return {
    svc: await publish(workspace, hosts.svc, history),
    peer: await publish(workspace, hosts.peer, history),
    defaults: await publish(workspace, hosts.defaults, history),
  }
}

function toEffort({ seconds }: Rounds): (rounds: number) => Effort {
  return (rounds) => ({ rounds, seconds })
}
