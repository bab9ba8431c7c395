import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { addSteps, evenSizes, makeBulk, makeHistory, type Source, stored } from './fixtures.ts'
import type { Host } from './host.ts'
import { type Contestant, interleave } from './measure.ts'
import { say } from './output.ts'
import type { Workspace } from './workspace.ts'

/** How often each operation is measured; in MiB the size of the big push. */
export type Effort = {
  listings: number
  fetches: number
  clones: number
  smallPushes: number
  bigPushes: number
  bigPushMib: number
  /** No operation takes longer than about this. */
  seconds: number
}

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

type Hosts = { svc: Host; peer: Host; defaults: Host }
type Name = keyof Hosts
type Addresses = Record<Name, string>

/** Measures the five operations of a git client on svc and on its peer. */
export async function compare(
  workspace: Workspace,
  hosts: Hosts,
  effort: Effort,
): Promise<Result[]> {
  say('Making a history of 3,000 commits and pushing it to both')
  const history = await makeHistory(workspace)
  const steps = await addSteps(workspace, history, effort.smallPushes + 1)
  const addresses = await publish(workspace, hosts, history)
  return [
    await measureListing(workspace, addresses, effort),
    await measureFetch(workspace, addresses, effort),
    await measureClone(workspace, addresses, effort),
    await measureSmallPush(workspace, addresses, { ...effort, history, steps }),
    await measureBigPush(workspace, hosts, effort),
  ]
}

async function publish({ git }: Workspace, hosts: Hosts, { path, ref }: Source) {
  const push = async (host: Host) => {
    const address = await host.create('history')
    // With one thread the same packs come to all hosts.
    const config = { 'pack.threads': '1' }
    await git(['-C', path, 'push', '--quiet', address, `${ref}:${ref}`], { config })
    return address
  }
  return {
    svc: await push(hosts.svc),
    peer: await push(hosts.peer),
    defaults: await push(hosts.defaults),
  }
}

async function measureListing({ git }: Workspace, { svc, peer }: Addresses, effort: Effort) {
  const list = (address: string) => async () => (await git(['ls-remote', address])).elapsedMs
  return contest('ls-remote', { svc: list(svc), peer: list(peer) }, effort.listings, effort)
}

async function measureFetch({ git }: Workspace, { svc, peer }: Addresses, effort: Effort) {
  const fetch = async (address: string, copy: string) => {
    await git(['clone', '--quiet', '--mirror', address, copy])
    return async () => (await git(['-C', copy, 'fetch', '--quiet'])).elapsedMs
  }
  const contestants = {
    svc: await fetch(svc, 'copy-of-svc'),
    peer: await fetch(peer, 'copy-of-peer'),
  }
  return contest('fetch, nothing new', contestants, effort.fetches, effort)
}

async function measureClone({ git, folder }: Workspace, { svc, peer }: Addresses, effort: Effort) {
  const clone = (address: string) => async () => {
    const { elapsedMs } = await git(['clone', '--quiet', '--mirror', address, 'clone'])
    await rm(join(folder, 'clone'), { recursive: true })
    return elapsedMs
  }
  return contest('clone', { svc: clone(svc), peer: clone(peer) }, effort.clones, effort)
}

type SmallPush = Effort & { history: Source; steps: string[] }

async function measureSmallPush(
  { git }: Workspace,
  { svc, peer, defaults }: Addresses,
  { history, steps, ...effort }: SmallPush,
) {
  const push = (address: string) => async (round: number) => {
    const update = `${steps[round]}:refs/heads/work`
    return (await git(['-C', history.path, 'push', '--quiet', address, update])).elapsedMs
  }
  const contestants = { svc: push(svc), peer: push(peer), defaults: push(defaults) }
  return contest('push of a commit', contestants, effort.smallPushes, effort)
}

async function measureBigPush(workspace: Workspace, hosts: Hosts, effort: Effort) {
  const { git } = workspace
  say(`Making ${effort.bigPushMib} MiB that cannot be compressed`)
  const sizes = evenSizes(effort.bigPushMib)
  const { path, ref } = await makeBulk(workspace, { name: 'bulk', sizes })
  const push = (host: Host) => async () => {
    const address = await host.create('bulk')
    // What earlier pushes left to be written would be waited for in this one.
    await workspace.sync()
    const options = ['-C', path, 'push', '--quiet', address, `${ref}:refs/heads/bulk`]
    const { elapsedMs } = await git(options, { config: stored })
    await host.remove('bulk')
    return elapsedMs
  }
  const toDefaults = push(hosts.defaults)
  const contestants = {
    svc: push(hosts.svc),
    peer: push(hosts.peer),
    // By default git takes a pack of so few files apart and compresses each anew: slow, so not every time.
    defaults: async (round: number) => (round % 3 === 1 ? toDefaults() : undefined),
  }
  return contest(`push of ${effort.bigPushMib} MiB`, contestants, effort.bigPushes, effort)
}

async function contest<Name extends string>(
  operation: string,
  contestants: Record<Name, Contestant>,
  wanted: number,
  { seconds }: Effort,
) {
  say(`Measuring: ${operation}`)
  const { medians, rounds } = await interleave({ contestants, rounds: wanted, seconds })
  return { operation, rounds, ...medians }
}
