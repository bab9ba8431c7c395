import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Fixtures, Source } from './fixtures.ts'
import { type Contestant, compare, type Effort } from './measure.ts'
import type { Host } from './peers.ts'
import { type Medians, mapServers, type PerServer } from './rows.ts'
import type { Workspace } from './workspace.ts'

// The operations of a git client, timed from the start of git to its end.

/** Addresses of one repository at svc, at its peer and at others. */
type Addresses = PerServer<string>

/** Pushes a source to a new repository, and returns its address. */
export async function publish(
  { git }: Workspace,
  host: Host,
  { name, path, ref, config, objectFormat }: Source,
): Promise<string> {
  const address = await host.create(name, objectFormat)
  // With one thread all hosts get the same packs.
  const settings = { ...config, 'pack.threads': '1' }
  await git(['-C', path, 'push', '--quiet', address, `${ref}:${ref}`], { config: settings })
  return address
}

export function measureListing(
  { git }: Workspace,
  addresses: Addresses,
  effort: Effort,
): Promise<Medians> {
  const list = (address: string) => async () => (await git(['ls-remote', address])).elapsedMs
  return compare('ls-remote', mapServers(addresses, list), effort)
}

export async function measureFetch(
  { git, folder }: Workspace,
  addresses: Addresses,
  effort: Effort,
): Promise<Medians> {
  const copyOf = (server: string) => join(folder, `copy-of-${server}`)
  for (const [server, address] of Object.entries(addresses)) {
    await git(['clone', '--quiet', '--mirror', address, copyOf(server)])
    await git(['-C', copyOf(server), 'fsck'])
  }
  const fetch = (_address: string, server: string) => async () =>
    (await git(['-C', copyOf(server), 'fetch', '--quiet'])).elapsedMs
  const medians = await compare('fetch without changes', mapServers(addresses, fetch), effort)
  for (const server of Object.keys(addresses)) await rm(copyOf(server), { recursive: true })
  return medians
}

/** Fetches a commit that was pushed just before, in each round another: `steps` has one more than there are rounds. */
export async function measureFetchOfCommit(
  { git, folder }: Workspace,
  addresses: Addresses,
  { history, steps, rounds, seconds }: Pick<Fixtures, 'history' | 'steps'> & Effort,
): Promise<Medians> {
  const copyOf = (server: string) => join(folder, `follower-of-${server}`)
  for (const [server, address] of Object.entries(addresses))
    await git(['clone', '--quiet', '--mirror', address, copyOf(server)])
  const fetch = (address: string, server: string) => async (round: number) => {
    const update = `${steps[round]}:refs/heads/followed`
    await git(['-C', history.path, 'push', '--quiet', address, update])
    return (await git(['-C', copyOf(server), 'fetch', '--quiet'])).elapsedMs
  }
  const medians = await compare('fetch of a commit', mapServers(addresses, fetch), {
    rounds,
    seconds,
  })
  for (const server of Object.keys(addresses)) {
    await git(['-C', copyOf(server), 'fsck'])
    await rm(copyOf(server), { recursive: true })
  }
  return medians
}

export function measureClone(
  { git, folder }: Workspace,
  addresses: Addresses,
  effort: Effort,
): Promise<Medians> {
  const clone = (address: string) => async () => {
    const { elapsedMs } = await git(['clone', '--quiet', '--mirror', address, 'clone'])
    await git(['-C', 'clone', 'fsck'])
    await rm(join(folder, 'clone'), { recursive: true })
    return elapsedMs
  }
  return compare('clone', mapServers(addresses, clone), effort)
}

type Pushes = Pick<Fixtures, 'history' | 'steps'> & Effort

/** Pushes a further commit in each round: `steps` has one more than there are rounds. */
export function measureSmallPush(
  workspace: Workspace,
  addresses: Addresses,
  pushes: Pushes,
): Promise<Medians> {
  return measureSteps(workspace, addresses, pushes, {
    title: 'push of a commit',
    refOf: () => 'refs/heads/work',
  })
}

/** Creates a branch in each round, with a commit on top of the branch before. */
export function measureNewBranch(
  workspace: Workspace,
  addresses: Addresses,
  pushes: Pushes,
): Promise<Medians> {
  return measureSteps(workspace, addresses, pushes, {
    title: 'push of a new branch',
    refOf: (round) => `refs/heads/topic/${round}`,
  })
}

/** Moves a branch to a further commit in each round, after all of them were pushed. */
export async function measureMove(
  workspace: Workspace,
  addresses: Addresses,
  pushes: Pushes,
): Promise<Medians> {
  const { history, steps } = pushes
  const moved = 'refs/heads/moved'
  const updates = steps.map((id, index) => `${id}:refs/heads/there/${index}`)
  for (const address of Object.values(addresses)) {
    const all = [...updates, `${history.ref}:${moved}`]
    await workspace.git(['-C', history.path, 'push', '--quiet', address, ...all])
  }
  return measureSteps(workspace, addresses, pushes, {
    title: 'push without objects',
    refOf: () => moved,
  })
}

function measureSteps(
  { git }: Workspace,
  addresses: Addresses,
  { history, steps, rounds, seconds }: Pushes,
  { title, refOf }: { title: string; refOf: (round: number) => string },
): Promise<Medians> {
  const push = (address: string) => async (round: number) => {
    const update = `${steps[round]}:${refOf(round)}`
    return (await git(['-C', history.path, 'push', '--quiet', address, update])).elapsedMs
  }
  return compare(title, mapServers(addresses, push), { rounds, seconds })
}

export function measureBigPush(
  workspace: Workspace,
  { defaults, ...hosts }: PerServer<Host>,
  { bulk, bulkMib, rounds, seconds }: Pick<Fixtures, 'bulk' | 'bulkMib'> & Effort,
): Promise<Medians> {
  const push = (host: Host) => async () => {
    const address = await host.create(bulk.name)
    // Otherwise this push would wait for unwritten data of earlier ones.
    await workspace.sync()
    const options = ['-C', bulk.path, 'push', '--quiet', address, `${bulk.ref}:refs/heads/bulk`]
    const { elapsedMs } = await workspace.git(options, { config: bulk.config })
    await host.remove(bulk.name)
    return elapsedMs
  }
  const pushToDefaults = defaults && push(defaults)
  const contestants: PerServer<Contestant> = {
    ...mapServers(hosts, push),
    // By default git unpacks a pack of so few files and compresses each again: slow, so not in every round.
    ...(pushToDefaults && {
      defaults: async (round) => (round % 3 === 1 ? pushToDefaults() : undefined),
    }),
  }
  return compare(`push of ${bulkMib} MiB`, contestants, { rounds, seconds })
}
