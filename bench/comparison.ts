import type { Fixtures } from './fixtures.ts'
import type { Hosts } from './host.ts'
import {
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

/** How often each operation is measured; none takes longer than about so many seconds. */
type Rounds = { listings: number; clones: number; smallPushes: number; seconds: number }

export type HttpEffort = Rounds & { fetches: number; bigPushes: number }
export type SshEffort = Rounds & { bigClones: number }

/** Measures the operations of a git client over HTTP. */
export async function compareOverHttp(
  workspace: Workspace,
  hosts: Hosts,
  { fixtures, effort }: { fixtures: Fixtures; effort: HttpEffort },
): Promise<Result[]> {
  const { bulk, bulkMib: mib } = fixtures
  const upTo = toEffort(effort)
  const addresses = await publishHistory(workspace, hosts, fixtures)
  return [
    await measureListing(workspace, addresses, upTo(effort.listings)),
    await measureFetch(workspace, addresses, upTo(effort.fetches)),
    await measureClone(workspace, addresses, { operation: 'clone', ...upTo(effort.clones) }),
    await measureSmallPush(workspace, addresses, { ...fixtures, ...upTo(effort.smallPushes) }),
    await measureBigPush(workspace, hosts, { bulk, mib, ...upTo(effort.bigPushes) }),
  ]
}

/** Measures the operations of a git client over SSH. `bulk` is where they have what takes long to clone. */
export async function compareOverSsh(
  workspace: Workspace,
  hosts: Hosts,
  { fixtures, effort }: { fixtures: Fixtures; effort: SshEffort },
): Promise<{ results: Result[]; bulk: { svc: string; peer: string } }> {
  const { bulk, bulkMib } = fixtures
  const upTo = toEffort(effort)
  const addresses = await publishHistory(workspace, hosts, fixtures)
  const addressesOfBulk = {
    svc: await publish(workspace, hosts.svc, bulk),
    peer: await publish(workspace, hosts.peer, bulk),
  }
  const bigClone = { operation: `clone of ${bulkMib} MiB`, ...upTo(effort.bigClones) }
  const results = [
    await measureListing(workspace, addresses, upTo(effort.listings)),
    await measureClone(workspace, addresses, { operation: 'clone', ...upTo(effort.clones) }),
    await measureSmallPush(workspace, addresses, { ...fixtures, ...upTo(effort.smallPushes) }),
    await measureClone(workspace, addressesOfBulk, bigClone),
  ]
  return { results, bulk: addressesOfBulk }
}

async function publishHistory(workspace: Workspace, hosts: Hosts, { history }: Fixtures) {
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
