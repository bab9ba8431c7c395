import { join, resolve } from 'node:path'
import { type Fixtures, makeManyRefs } from './fixtures.ts'
import {
  measureBigPush,
  measureClone,
  measureFetch,
  measureListing,
  measureSmallPush,
  publish,
} from './git-commands.ts'
import { compareOnWire, interleave, median, mediansOf } from './measure.ts'
import { measureIdle } from './memory.ts'
import { print } from './print.ts'
import { mapServers, type PerServer, type Row, type RowName, timeRow } from './rows.ts'
import { createSshClient } from './ssh.ts'
import { timeToResponse } from './start.ts'
import { type Svc, type SvcOptions, startSvc } from './svc.ts'
import { cloneRequest, listingRequests, pushAdvertisement, type Request } from './wire-client.ts'
import type { Workspace } from './workspace.ts'

export type AgainstEffort = {
  wire: { rounds: number; ms: number }
  commands: number
  bigPushes: number
  starts: number
  seconds: number
}

/** Servers of this checkout and of the other one. */
type Both = Record<'svc' | 'peer', Svc>

/** The parts that can be measured beside another checkout. */
export const againstParts = ['wire', 'http', 'ssh', 'start'] as const

type AgainstPart = (typeof againstParts)[number]

/** Compares this checkout with another one, its peer, in whose `node_modules` everything is installed. */
export async function measureAgainst(
  workspace: Workspace,
  makeFixtures: () => Promise<Fixtures>,
  { directory, parts, ...effort }: AgainstEffort & { directory: string; parts: AgainstPart[] },
): Promise<Row[]> {
  const program = join(resolve(directory), 'bin', 'svc')
  const dataDir = join(workspace.folder, 'data')
  const options = { svc: { dataDir }, peer: { dataDir: `${dataDir}-peer`, program } }
  const rows: Row[] = []
  if (parts.includes('start')) rows.push(...(await measureStarts(workspace, options, effort)))
  if (parts.every((part) => part === 'start')) return rows

  const fixtures = await makeFixtures()
  print(`Starting svc, and as its peer the svc of ${directory}`)
  await using svc = await startSvc(options.svc)
  await using peer = await startSvc(options.peer)
  const both = { svc, peer }
  if (parts.includes('wire'))
    rows.push(...(await measureRequests(workspace, fixtures, both, effort)))
  if (parts.includes('http'))
    rows.push(...(await measureCommands(workspace, fixtures, both, effort)))
  if (parts.includes('ssh'))
    rows.push(...(await measureSshCommands(workspace, fixtures, both, effort)))
  await Promise.all([svc.stop(), peer.stop()])
  return rows
}

async function measureStarts(
  workspace: Workspace,
  options: PerServer<SvcOptions>,
  { starts: rounds, seconds }: AgainstEffort,
): Promise<Row[]> {
  const effort = { rounds, seconds }
  print('Measuring: start')
  const start = (one: SvcOptions) => () => timeToResponse(one)
  const times = await interleave(mapServers(options, start), effort)
  const medians = (measure: 'elapsedMs' | 'cpuMs') => ({
    values: mapServers(times.samples, (all) => median(all.map((one) => one[measure]))),
    rounds: times.rounds,
  })
  print('Measuring: memory when idle')
  const idle = (one: SvcOptions) => async () => (await measureIdle(workspace, one)).pssAlone
  const memory = await interleave(mapServers(options, idle), effort)
  return [
    timeRow('against: start', medians('elapsedMs')),
    timeRow('  CPU time', medians('cpuMs')),
    {
      name: 'against: memory when idle',
      unit: 'bytes',
      values: mapServers(memory.samples, median),
      rounds: memory.rounds,
    },
  ]
}

async function measureRequests(
  workspace: Workspace,
  { history }: Fixtures,
  both: Both,
  { wire, seconds }: AgainstEffort,
): Promise<Row[]> {
  const manyRefs = await makeManyRefs(workspace, history, 20_000)
  for (const svc of Object.values(both)) {
    for (const { name, path } of [history, manyRefs]) await svc.host.copy(name, path)
    await svc.maintain(history.name)
  }
  const { output: tip } = await workspace.git(['-C', history.path, 'rev-parse', history.ref])
  const measure = async (
    name: RowName,
    toTarget: (svc: Svc) => ReturnType<Svc['target']>,
    requests: Request[],
    connections = 1,
  ): Promise<Row[]> => {
    const shape = { connections, requests: () => requests, mayDifferInSize: true }
    const targets = mapServers(both, toTarget)
    const result = await compareOnWire(name, targets, { ...wire, seconds, ...shape })
    return [
      timeRow(name, mediansOf(result, 'p50')),
      timeRow('  CPU time', mediansOf(result, 'cpu')),
    ]
  }
  const api = (svc: Svc) => svc.apiTarget(`/repos/${history.name}`)
  const small = (svc: Svc) => svc.target(history.name)
  const large = (svc: Svc) => svc.target(manyRefs.name)
  return [
    ...(await measure('against: GET /repos/:name', api, [{ method: 'GET', path: '' }])),
    ...(await measure('against: listing', small, listingRequests())),
    ...(await measure('against: listing, 8 connections', small, listingRequests(), 8)),
    ...(await measure('against: listing of 20,000 refs', large, listingRequests())),
    ...(await measure('against: begin of a push', large, pushAdvertisement)),
    ...(await measure('against: shallow clone, cached', small, [cloneRequest(tip, 1)])),
    ...(await measure('against: clone, cached', small, [cloneRequest(tip)])),
  ]
}

async function measureCommands(
  workspace: Workspace,
  fixtures: Fixtures,
  both: Both,
  { commands: rounds, bigPushes, seconds }: AgainstEffort,
): Promise<Row[]> {
  const { history } = fixtures
  const pushed = { ...history, name: 'pushed' }
  const manyRefs = await makeManyRefs(workspace, history, 100_000)
  const addresses = {
    svc: await publish(workspace, both.svc.host, pushed),
    peer: await publish(workspace, both.peer.host, pushed),
  }
  const addressesOfManyRefs = {
    svc: await both.svc.host.copy(manyRefs.name, manyRefs.path),
    peer: await both.peer.host.copy(manyRefs.name, manyRefs.path),
  }
  const effort = { rounds, seconds }
  const push = { ...fixtures, ...effort }
  const hosts = { svc: both.svc.host, peer: both.peer.host }
  const bigPush = { ...fixtures, rounds: bigPushes, seconds }
  return [
    timeRow('against: ls-remote', await measureListing(workspace, addresses, effort)),
    timeRow('against: fetch without changes', await measureFetch(workspace, addresses, effort)),
    timeRow('against: clone', await measureClone(workspace, addresses, effort)),
    timeRow('against: push of a commit', await measureSmallPush(workspace, addresses, push)),
    timeRow(
      'against: push of a commit to 100,000 refs',
      await measureSmallPush(workspace, addressesOfManyRefs, push),
    ),
    timeRow('against: push of 256 MiB', await measureBigPush(workspace, hosts, bigPush)),
  ]
}

async function measureSshCommands(
  workspace: Workspace,
  fixtures: Fixtures,
  { svc, peer }: Both,
  { commands: rounds, seconds }: AgainstEffort,
): Promise<Row[]> {
  const { key, client } = await createSshClient(workspace)
  const pushed = { ...fixtures.history, name: 'pushed-over-ssh' }
  const addresses = {
    svc: await publish(client, await svc.overSsh(key), pushed),
    peer: await publish(client, await peer.overSsh(key), pushed),
  }
  const effort = { rounds, seconds }
  const push = { ...fixtures, ...effort }
  return [
    timeRow('against: ls-remote over SSH', await measureListing(client, addresses, effort)),
    timeRow('against: clone over SSH', await measureClone(client, addresses, effort)),
    timeRow('against: push of a commit over SSH', await measureSmallPush(client, addresses, push)),
  ]
}
