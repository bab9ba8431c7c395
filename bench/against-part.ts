import { join, resolve } from 'node:path'
import { newSshKey, sshCommand } from '../test/support/openssh.ts'
import { againstRows } from './bounds.ts'
import type { Fixtures } from './fixtures.ts'
import {
  measureBigPush,
  measureClone,
  measureFetch,
  measureListing,
  measureSmallPush,
  publish,
  type Result,
} from './operations.ts'
import { say } from './output.ts'
import { makeManyRefs } from './ref-fixtures.ts'
import { startSubject } from './subject.ts'
import type { Row } from './table.ts'
import {
  listingPair,
  pushAdvertisement,
  type Request,
  type Target,
  type WireResult,
  wholeFetch,
  wireContest,
} from './wire.ts'
import { type Workspace, withSsh } from './workspace.ts'

type Subject = Awaited<ReturnType<typeof startSubject>>

type Effort = {
  wire: { rounds: number; ms: number }
  commands: number
  bigPushes: number
  seconds: number
}

/** Compares this checkout with another one, in whose `node_modules` everything is installed. */
export async function measureAgainst(
  workspace: Workspace,
  fixtures: Fixtures,
  { directory, ...effort }: Effort & { directory: string },
): Promise<Row[]> {
  const { history } = fixtures
  const manyRefs = await makeManyRefs(workspace, history, 20_000)
  say(`Starting svc, and as its peer the svc of ${directory}`)
  const program = join(resolve(directory), 'bin', 'svc')
  await using svc = await startSubject({ dataDir: join(workspace.folder, 'data') })
  await using peer = await startSubject({ dataDir: join(workspace.folder, 'data-peer'), program })
  const subjects = { svc, peer }
  for (const subject of [svc, peer]) {
    for (const { name, path } of [history, manyRefs]) await subject.host.copy(name, path)
    await subject.maintain(history.name)
  }
  const { output: tip } = await workspace.git(['-C', history.path, 'rev-parse', history.ref])

  const { seconds } = effort
  const onWire = (
    what: string,
    targetOf: (subject: Subject) => Target,
    requests: (round: number) => Request[],
    { connections = 1, ms = effort.wire.ms } = {},
  ) => {
    const targets = { svc: targetOf(svc), peer: targetOf(peer) }
    const { rounds } = effort.wire
    const shape = { connections, ms, requests, mayDifferInSize: true }
    return wireContest(what, targets, { rounds, seconds, ...shape })
  }
  const get: Request[] = [{ method: 'GET', path: '' }]
  const inHistory = (subject: Subject) => subject.target(history.name)
  const inManyRefs = (subject: Subject) => subject.target(manyRefs.name)
  const wire: WireResult[] = [
    await onWire(
      'GET /repos/:name',
      (subject) => subject.apiTarget(`/repos/${history.name}`),
      () => get,
    ),
    await onWire('a listing', inHistory, () => listingPair()),
    await onWire('a listing, connections: 8', inHistory, () => listingPair(), { connections: 8 }),
    await onWire('a listing of 20,000 refs', inManyRefs, () => listingPair()),
    await onWire('the begin of a push', inManyRefs, () => pushAdvertisement),
    await onWire('a shallow clone again', inHistory, () => wholeFetch(tip, 1)),
    await onWire('a clone again', inHistory, () => wholeFetch(tip)),
  ]
  const times = [
    ...(await measureCommands(workspace, fixtures, subjects, effort)),
    ...(await measureSshCommands(workspace, fixtures, subjects, effort)),
  ]
  await Promise.all([svc.stop(), peer.stop()])
  return againstRows({ wire, times })
}

type Subjects = { svc: Subject; peer: Subject }

async function measureCommands(
  workspace: Workspace,
  { history, steps, bulk, bulkMib: mib }: Fixtures,
  { svc, peer }: Subjects,
  { commands: rounds, bigPushes, seconds }: Effort,
): Promise<Result[]> {
  const target = { ...history, name: 'pushed' }
  const addresses = {
    svc: await publish(workspace, svc.host, target),
    peer: await publish(workspace, peer.host, target),
  }
  const effort = { rounds, seconds }
  const push = { ...effort, history, steps, operation: 'push of a commit' }
  const hosts = { svc: svc.host, peer: peer.host }
  return [
    await measureListing(workspace, addresses, effort),
    await measureFetch(workspace, addresses, effort),
    await measureClone(workspace, addresses, { ...effort, operation: 'clone' }),
    await measureSmallPush(workspace, addresses, push),
    await measureBigPush(workspace, hosts, { bulk, mib, rounds: bigPushes, seconds }),
  ]
}

async function measureSshCommands(
  workspace: Workspace,
  { history, steps }: Fixtures,
  { svc, peer }: Subjects,
  { commands: rounds, seconds }: Effort,
): Promise<Result[]> {
  const key = await newSshKey(join(workspace.folder, 'key'))
  const knownHosts = join(workspace.folder, 'known-hosts')
  const client = withSsh(workspace, sshCommand({ key: key.path, knownHosts }))
  const target = { ...history, name: 'pushed-over-ssh' }
  const addresses = {
    svc: await publish(client, await svc.overSsh(key), target),
    peer: await publish(client, await peer.overSsh(key), target),
  }
  const effort = { rounds, seconds }
  const push = { ...effort, history, steps, operation: 'push of a commit over SSH' }
  return [
    { ...(await measureListing(client, addresses, effort)), operation: 'ls-remote over SSH' },
    await measureClone(client, addresses, { ...effort, operation: 'clone over SSH' }),
    await measureSmallPush(client, addresses, push),
  ]
}
