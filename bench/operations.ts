import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Source } from './fixtures.ts'
import type { Host, Hosts } from './host.ts'
import { type Contestant, interleave } from './measure.ts'
import { say } from './output.ts'
import type { Other } from './table.ts'
import type { Workspace } from './workspace.ts'

/** Medians in ms, of svc, its peer with the durability and the checks of svc, and whoever else was measured. */
export type Result = {
  operation: string
  rounds: number
  svc: number
  peer: number
} & Partial<Record<Other, number>>

/** Rounds per operation, and the approximate limit of seconds. */
export type Effort = { rounds: number; seconds: number }

/** Of the same repository at svc, at its peer and at others. */
export type Addresses = { svc: string; peer: string } & Partial<Record<Other, string>>

/** Pushes a source to a new repository, and returns its address. */
export async function publish(
  { git }: Workspace,
  host: Host,
  { name, path, ref, config }: Source,
): Promise<string> {
  const address = await host.create(name)
  // With one thread the same packs come to all hosts.
  const settings = { ...config, 'pack.threads': '1' }
  await git(['-C', path, 'push', '--quiet', address, `${ref}:${ref}`], { config: settings })
  return address
}

export async function measureListing(
  { git }: Workspace,
  addresses: Addresses,
  effort: Effort,
): Promise<Result> {
  const list = (address: string) => async () => (await git(['ls-remote', address])).elapsedMs
  return contest('ls-remote', eachOf(addresses, list), effort)
}

export async function measureFetch(
  { git, folder }: Workspace,
  addresses: Addresses,
  effort: Effort,
): Promise<Result> {
  const copies: string[] = []
  for (const [name, address] of Object.entries(addresses)) {
    const copy = join(folder, `copy-of-${name}`)
    copies.push(copy)
    await git(['clone', '--quiet', '--mirror', address, copy])
    await git(['-C', copy, 'fsck'])
  }
  const fetch = (_address: string, name: string) => async () =>
    (await git(['-C', join(folder, `copy-of-${name}`), 'fetch', '--quiet'])).elapsedMs
  const result = await contest('fetch, nothing new', eachOf(addresses, fetch), effort)
  for (const copy of copies) await rm(copy, { recursive: true })
  return result
}

export async function measureClone(
  { git, folder }: Workspace,
  addresses: Addresses,
  { operation, ...effort }: Effort & { operation: string },
): Promise<Result> {
  const clone = (address: string) => async () => {
    const { elapsedMs } = await git(['clone', '--quiet', '--mirror', address, 'clone'])
    await git(['-C', 'clone', 'fsck'])
    await rm(join(folder, 'clone'), { recursive: true })
    return elapsedMs
  }
  return contest(operation, eachOf(addresses, clone), effort)
}

/** Pushes a further commit in each round: `steps`, one more than there are rounds. */
export async function measureSmallPush(
  { git }: Workspace,
  addresses: Addresses,
  options: Effort & { operation: string; history: Source; steps: string[] },
): Promise<Result> {
  const { operation, history, steps, ...effort } = options
  const push = (address: string) => async (round: number) => {
    const update = `${steps[round]}:refs/heads/work`
    return (await git(['-C', history.path, 'push', '--quiet', address, update])).elapsedMs
  }
  return contest(operation, eachOf(addresses, push), effort)
}

export async function measureBigPush(
  workspace: Workspace,
  hosts: Pick<Hosts, 'svc' | 'peer'> & Partial<Hosts>,
  { bulk, mib, ...effort }: Effort & { bulk: Source; mib: number },
): Promise<Result> {
  const { git } = workspace
  const push = (host: Host) => async () => {
    const address = await host.create(bulk.name)
    // Otherwise this push would wait for unwritten data of earlier ones.
    await workspace.sync()
    const options = ['-C', bulk.path, 'push', '--quiet', address, `${bulk.ref}:refs/heads/bulk`]
    const { elapsedMs } = await git(options, { config: bulk.config })
    await host.remove(bulk.name)
    return elapsedMs
  }
  const toDefaults = hosts.defaults && push(hosts.defaults)
  const contestants: Record<'svc' | 'peer', Contestant> = {
    svc: push(hosts.svc),
    peer: push(hosts.peer),
    // By default git takes a pack of so few files apart and compresses each anew: slow, so not every time.
    ...(toDefaults && {
      defaults: async (round: number) => (round % 3 === 1 ? toDefaults() : undefined),
    }),
  }
  return contest(`push of ${mib} MiB`, contestants, effort)
}

/** Has contestants do the same in turns; the medians of their times. */
export async function contest<Name extends string>(
  operation: string,
  contestants: Record<Name, Contestant>,
  effort: Effort,
) {
  say(`Measuring: ${operation}`)
  const { medians, rounds } = await interleave({ contestants, ...effort })
  return { operation, rounds, ...medians }
}

/** The same made of each address; of svc and its peer there is always one. */
function eachOf<T>(addresses: Addresses, make: (address: string, name: string) => T) {
  const made = Object.entries(addresses).map(([name, address]) => [name, make(address, name)])
  // One entry for each of the addresses.
  return Object.fromEntries(made) as Record<'svc' | 'peer', T>
}
