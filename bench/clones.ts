import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Fixtures, makeMaintained, makeManyPacks, type Source } from './fixtures.ts'
import { compareOnWire, type Effort, interleave, median, mediansOf } from './measure.ts'
import { watchGrowth } from './memory.ts'
import { installPeer, startHttpPeer } from './peers.ts'
import { print } from './print.ts'
import { bytesRow, type Medians, mapServers, type PerServer, type Row, timeRow } from './rows.ts'
import { recordReplies, startStaticServer } from './static-server.ts'
import { startSvc } from './svc.ts'
import { cloneRequest, type Request, startWireClient, type Target, toText } from './wire-client.ts'
import type { Workspace } from './workspace.ts'

/** A server, with the address at which git clones from it. */
type CloneSource = {
  address: string
  cpuMs: () => number
  /** Ensures that no response is cached for the clones of a round. */
  renew?: (round: number) => Promise<unknown>
}

const clonesAtOnce = 32
const maxConcurrentChecks = 2
const packs = 100
const settleMs = 2000

/** Compares the cost of clones: many at once, each of another commit, and repeated ones. */
export async function measureClones(
  workspace: Workspace,
  { history, steps, bulk }: Fixtures,
  effort: { storms: number; clones: number; shallowMs: number; seconds: number },
): Promise<Row[]> {
  const { storms, clones, shallowMs, seconds } = effort
  const { git } = workspace
  print(`Creating a repository with ${packs} packs`)
  const inPacks = await makeManyPacks(workspace, history, packs)
  const maintained = await makeMaintained(workspace, history)
  print('Starting git http-backend behind nginx and fcgiwrap, and svc')
  await using peer = await startHttpPeer(workspace, await installPeer('http'))
  await using svc = await startSvc({ dataDir: join(workspace.folder, 'data-clones') })
  const addresses = {
    svc: await svc.host.copy(history.name, history.path),
    peer: await peer.durable.copy(history.name, history.path),
  }
  for (const { name, path } of [inPacks, bulk]) {
    await git(['-C', path, 'pack-refs', '--all'])
    await svc.host.copy(name, path)
    await peer.durable.copy(name, path)
  }
  const targetsOf = ({ name }: Source): PerServer<Target> => ({
    svc: svc.target(name),
    peer: peer.target(name),
  })
  const tipOf = async ({ path, ref }: Source) => (await git(['-C', path, 'rev-parse', ref])).output

  // First, as it warms up svc; the peer starts new processes each time.
  const shallowClone = cloneRequest(await tipOf(history), 1)
  const shallow = await compareOnWire('shallow clone', targetsOf(history), {
    rounds: storms,
    seconds,
    ms: shallowMs,
    requests: () => [shallowClone],
  })

  // Of the last commit, which includes all others.
  await using limit = await startStaticServer(
    await recordReplies(svc.target(history.name), steps.at(-1)),
  )
  const renew = (address: string) => (round: number) => {
    const update = `${steps[round]}:refs/heads/storm-${round}`
    return git(['-C', history.path, 'push', '--quiet', address, update])
  }
  const sources = {
    svc: { cpuMs: svc.cpuMs, address: addresses.svc, renew: renew(addresses.svc) },
    peer: { cpuMs: peer.cpuMs, address: addresses.peer, renew: renew(addresses.peer) },
    limit: { cpuMs: limit.cpuMs, address: limit.url },
  }
  const storm = await measureStorm(workspace, sources, { rounds: storms, seconds })

  // Each round clones a branch that no server has served before.
  const branches = steps.map((step, number) => `${step}:refs/heads/branch-${number}`)
  for (const address of Object.values(addresses)) {
    await git(['-C', history.path, 'push', '--quiet', address, ...branches])
  }
  const onePass = { rounds: clones, seconds, ms: 0 }
  const uncached = await compareOnWire('clone, not cached', targetsOf(history), {
    ...onePass,
    requests: (round) => [cloneRequest(steps[round] ?? '')],
  })
  const bulkTip = await tipOf(bulk)
  const bulkRequest = cloneRequest(bulkTip)
  const cloneServers = mapServers(targetsOf(bulk), (target, server) => ({
    target,
    pids: server === 'svc' ? [svc.pid] : peer.pids,
  }))
  // The files that are wanted besides the commit are in it, but make another request.
  const { output: files } = await git(['-C', bulk.path, 'ls-tree', '-r', '--object-only', bulkTip])
  const memoryEffort = { rounds: Math.ceil(clones / 5), seconds }
  const memoryByGit = await measureCloneMemory('clone of 256 MiB by git', cloneServers, {
    ...memoryEffort,
    request: (round) => cloneRequest([bulkTip, files.split('\n')[round] ?? '']),
  })
  const held = await measureHeldClones(workspace, {
    pid: svc.pid,
    target: svc.target(bulk.name),
    request: bulkRequest,
  })

  const { output } = await git(['-C', inPacks.path, 'rev-list', inPacks.ref])
  const commits = output.split('\n')
  const cloneFromPacks = (title: string, first: number) =>
    compareOnWire(title, targetsOf(inPacks), {
      ...onePass,
      requests: (round) => [cloneRequest(commits[first + round] ?? '')],
    })
  const before = await cloneFromPacks(`clone of ${packs} packs`, 0)
  await svc.maintain(inPacks.name)
  const after = await cloneFromPacks(`clone of ${packs} packs after maintenance`, clones + 1)

  for (const [server, { host }] of [
    ['svc', svc],
    ['peer', { host: peer.durable }],
  ] as const) {
    const address = await host.copy(maintained.name, maintained.path)
    if (server === 'svc') await svc.maintain(maintained.name)
    await git(['-C', history.path, 'push', '--quiet', address, ...branches])
  }
  const stored = await compareOnWire('clone of a maintained repository', targetsOf(maintained), {
    ...onePass,
    // The pack of svc has the objects in another order.
    mayDifferInSize: true,
    requests: (round) => [cloneRequest(steps[round] ?? '')],
  })
  await svc.maintain(bulk.name)
  const large = await compareOnWire('clone of 256 MiB', targetsOf(bulk), {
    ...onePass,
    rounds: Math.ceil(clones / 3),
    mayDifferInSize: true,
    requests: () => [bulkRequest],
  })
  const memory = await measureCloneMemory('clone of 256 MiB', cloneServers, {
    ...memoryEffort,
    request: () => bulkRequest,
  })
  await svc.stop()
  return [
    timeRow('clones: 32 at once', storm.wall),
    timeRow('clones: 32 at once, CPU time', storm.cpu),
    timeRow('clones: not cached, CPU time', mediansOf(uncached, 'cpu')),
    timeRow('clones: not cached, first byte', mediansOf(uncached, 'firstByte')),
    timeRow('  last byte', mediansOf(uncached, 'p50')),
    timeRow('clones: maintained, CPU time', mediansOf(stored, 'cpu')),
    timeRow('clones: maintained, last byte', mediansOf(stored, 'p50')),
    timeRow('clones: of 256 MiB, CPU time', mediansOf(large, 'cpu')),
    timeRow('clones: of 256 MiB, last byte', mediansOf(large, 'p50')),
    timeRow('clones: shallow and cached, CPU time', mediansOf(shallow, 'cpu')),
    timeRow('  last byte', mediansOf(shallow, 'p50')),
    timeRow('clones: of 100 packs, CPU time', mediansOf(before, 'cpu')),
    timeRow('clones: of 100 packs after maintenance, CPU time', mediansOf(after, 'cpu')),
    { name: 'clones: of 256 MiB by git, memory', unit: 'bytes', ...memoryByGit },
    { name: 'clones: of 256 MiB, memory', unit: 'bytes', ...memory },
    bytesRow('clones: memory for each, cached', held),
  ]
}

/** Measures simultaneous clones: the time until the last one ends, and the server's CPU time. */
async function measureStorm(workspace: Workspace, sources: PerServer<CloneSource>, effort: Effort) {
  print(`Measuring: ${clonesAtOnce} clones at once`)
  const names = Array.from({ length: clonesAtOnce }, (_, index) => `storm-${index}`)
  const storm = (source: CloneSource) => async (round: number) => {
    await source.renew?.(round)
    await workspace.sync()
    const cpuBefore = source.cpuMs()
    const startedAt = performance.now()
    const clone = (name: string) =>
      workspace.git(['clone', '--quiet', '--mirror', source.address, name])
    await Promise.all(names.map(clone))
    const wall = performance.now() - startedAt
    const cpu = source.cpuMs() - cpuBefore
    await checkAll(workspace, names)
    return { wall, cpu }
  }
  const { samples, rounds } = await interleave(mapServers(sources, storm), effort)
  const medians = (measure: 'wall' | 'cpu') => ({
    values: mapServers(samples, (all) => median(all.map((one) => one[measure]))),
    rounds,
  })
  return { wall: medians('wall'), cpu: medians('cpu') }
}

/** Measures the growth of the memory of servers during one clone, in bytes. */
async function measureCloneMemory(
  title: string,
  servers: PerServer<{ target: Target; pids: number[] }>,
  { request, ...effort }: Effort & { request: (round: number) => Request },
): Promise<Medians> {
  print(`Measuring: memory during a ${title}`)
  await using client = startWireClient()
  const grow =
    ({ target, pids }: { target: Target; pids: number[] }) =>
    async (round: number) => {
      using watched = watchGrowth(...pids)
      await client.run(target, { connections: 1, ms: 0, requests: [request(round)] })
      return watched.growth.tree
    }
  const { samples, rounds } = await interleave(mapServers(servers, grow), effort)
  return { values: mapServers(samples, median), rounds }
}

/** Measures svc's memory per clone served from the cache, in bytes, with slow clients. */
async function measureHeldClones(
  { signal }: Workspace,
  { pid, target, request }: { pid: number; target: Target; request: Request },
): Promise<number> {
  print('Measuring: memory of clones served from the cache')
  {
    await using client = startWireClient()
    // A response requested twice is stored.
    const job = { connections: 1, ms: 0, requests: [request, request, request] }
    await client.run(target, job)
  }
  await pause(settleMs, undefined, { signal })
  using watched = watchGrowth(pid)
  const slow = Array.from({ length: clonesAtOnce }, () => beginSlowly(target, request))
  await Promise.all(slow.map(({ began }) => began))
  await pause(settleMs, undefined, { signal })
  for (const { socket } of slow) socket.destroy()
  return watched.growth.tree / clonesAtOnce
}

/** Checks clones with git, and removes them. */
async function checkAll({ git, folder }: Workspace, names: string[]): Promise<void> {
  const left = [...names]
  const check = async () => {
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      await git(['-C', name, 'fsck'])
      await rm(join(folder, name), { recursive: true })
    }
  }
  await Promise.all(Array.from({ length: maxConcurrentChecks }, check))
}

/** Sends a request, and stops reading when the response begins. */
function beginSlowly(
  target: Target,
  request: Request,
): { socket: Socket; began: Promise<unknown> } {
  const socket = connect({ port: Number(new URL(target.url).port), host: '127.0.0.1' })
  socket.on('error', () => {})
  socket.write(toText(target, request), 'latin1')
  const began = once(socket, 'data').then(() => socket.pause())
  return { socket, began }
}
