import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Source } from './fixtures.ts'
import type { Host, Hosts } from './host.ts'
import { type Contestant, interleave } from './measure.ts'
import { say } from './output.ts'
import type { Workspace } from './workspace.ts'

/** Medians in ms. */
export type Result = {
  operation: string
  svc: number
  /** The peer with the durability and the checks of svc, where that makes a difference. */
  peer: number
  /** The peer with git's default configuration, where that makes a difference. */
  defaults?: number
  rounds: number
}

/** How often an operation is measured, unless that takes longer than about so many seconds. */
export type Effort = { rounds: number; seconds: number }

/** Of the same repository at svc and at its peer. */
type Addresses = { svc: string; peer: string }

/** Pushes a source to a new repository; the address of that. */
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
  { svc, peer }: Addresses,
  effort: Effort,
): Promise<Result> {
  const list = (address: string) => async () => (await git(['ls-remote', address])).elapsedMs
  return contest('ls-remote', { svc: list(svc), peer: list(peer) }, effort)
}

export async function measureFetch(
  { git }: Workspace,
  { svc, peer }: Addresses,
  effort: Effort,
): Promise<Result> {
  const fetch = async (address: string, copy: string) => {
    await git(['clone', '--quiet', '--mirror', address, copy])
    return async () => (await git(['-C', copy, 'fetch', '--quiet'])).elapsedMs
  }
  const contestants = {
    svc: await fetch(svc, 'copy-of-svc'),
    peer: await fetch(peer, 'copy-of-peer'),
  }
  return contest('fetch, nothing new', contestants, effort)
}

export async function measureClone(
  { git, folder }: Workspace,
  { svc, peer }: Addresses,
  { operation, ...effort }: Effort & { operation: string },
): Promise<Result> {
  const clone = (address: string) => async () => {
    const { elapsedMs } = await git(['clone', '--quiet', '--mirror', address, 'clone'])
    await rm(join(folder, 'clone'), { recursive: true })
    return elapsedMs
  }
  return contest(operation, { svc: clone(svc), peer: clone(peer) }, effort)
}

/** Pushes a further commit in each round: `steps`, one more than there are rounds. */
export async function measureSmallPush(
  { git }: Workspace,
  { svc, peer, defaults }: Addresses & { defaults: string },
  { history, steps, ...effort }: Effort & { history: Source; steps: string[] },
): Promise<Result> {
  const push = (address: string) => async (round: number) => {
    const update = `${steps[round]}:refs/heads/work`
    return (await git(['-C', history.path, 'push', '--quiet', address, update])).elapsedMs
  }
  const contestants = { svc: push(svc), peer: push(peer), defaults: push(defaults) }
  return contest('push of a commit', contestants, effort)
}

export async function measureBigPush(
  workspace: Workspace,
  hosts: Hosts,
  { bulk, mib, ...effort }: Effort & { bulk: Source; mib: number },
): Promise<Result> {
  const { git } = workspace
  const push = (host: Host) => async () => {
    const address = await host.create(bulk.name)
    // What earlier pushes left to be written would be waited for in this one.
    await workspace.sync()
    const options = ['-C', bulk.path, 'push', '--quiet', address, `${bulk.ref}:refs/heads/bulk`]
    const { elapsedMs } = await git(options, { config: bulk.config })
    await host.remove(bulk.name)
    return elapsedMs
  }
  const toDefaults = push(hosts.defaults)
  const contestants = {
    svc: push(hosts.svc),
    peer: push(hosts.peer),
    // By default git takes a pack of so few files apart and compresses each anew: slow, so not every time.
    defaults: async (round: number) => (round % 3 === 1 ? toDefaults() : undefined),
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
