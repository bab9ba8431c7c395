import { join } from 'node:path'
import { type Fixtures, makeManyRefs, makeSha256History, type Source } from './fixtures.ts'
import {
  measureBigPush,
  measureClone,
  measureFetch,
  measureFetchOfCommit,
  measureListing,
  measureMove,
  measureNewBranch,
  measureSmallPush,
  publish,
} from './git-commands.ts'
import { installPeer, startApachePeer, startDaemonPeer, startHttpPeer } from './peers.ts'
import { print } from './print.ts'
import { type Medians, type Row, type RowName, timeRow } from './rows.ts'
import { recordReplies, startStaticServer } from './static-server.ts'
import { startSvc } from './svc.ts'
import type { Workspace } from './workspace.ts'

type HttpEffort = {
  listings: number
  fetches: number
  clones: number
  smallPushes: number
  bigPushes: number
  seconds: number
}

/** Compares svc with git http-backend for a git client, and reading with git daemon as well. */
export async function measureHttp(
  workspace: Workspace,
  fixtures: Fixtures,
  { seconds, ...effort }: HttpEffort,
): Promise<Row[]> {
  const { history } = fixtures
  const manyRefs = await makeManyRefs(workspace, history, 100_000)
  print('Starting git http-backend behind nginx and fcgiwrap, and behind Apache; git daemon; svc')
  await using peer = await startHttpPeer(workspace, await installPeer('http'))
  const { apache2 } = await installPeer('apache')
  await using apache = await startApachePeer(workspace, { apache2, repositories: peer.folder })
  await using daemon = await startDaemonPeer(workspace, peer.folder)
  await using svc = await startSvc({ dataDir: join(workspace.folder, 'data-http') })
  const hosts = { svc: svc.host, peer: peer.durable, defaults: peer.defaults }
  print('Pushing the history to all hosts')
  const publishAll = async (source: Source) => ({
    svc: await publish(workspace, hosts.svc, source),
    peer: await publish(workspace, hosts.peer, source),
    defaults: await publish(workspace, hosts.defaults, source),
  })
  const addresses = await publishAll(history)
  // Not the same repository, since a commit that is there already is pushed without its objects.
  const addressesToFollow = await publishAll({ ...history, name: 'followed' })
  const addressesToBranch = await publishAll({ ...history, name: 'branched' })
  const addressesOfManyRefs = {
    svc: await hosts.svc.copy(manyRefs.name, manyRefs.path),
    peer: await hosts.peer.copy(manyRefs.name, manyRefs.path),
  }
  const { output: tip } = await workspace.git(['-C', history.path, 'rev-parse', history.ref])
  await using limit = await startStaticServer(await recordReplies(svc.target(history.name), tip))
  const readAddresses = {
    svc: addresses.svc,
    peer: addresses.peer,
    apache: `${apache.url}/durable/${history.name}.git`,
    daemon: `${daemon.url}/durable/${history.name}.git`,
    limit: limit.url,
  }

  const upTo = (rounds: number) => ({ rounds, seconds })
  const smallPush = { ...fixtures, ...upTo(effort.smallPushes) }
  const bigPush = { ...fixtures, ...upTo(effort.bigPushes) }
  const listing = await measureListing(workspace, readAddresses, upTo(effort.listings))
  const fetch = await measureFetch(workspace, readAddresses, upTo(effort.fetches))
  const follow = await measureFetchOfCommit(workspace, addressesToFollow, smallPush)
  const clone = await measureClone(workspace, readAddresses, upTo(effort.clones))
  const push = await measureSmallPush(workspace, addresses, smallPush)
  const newBranch = await measureNewBranch(workspace, addressesToBranch, smallPush)
  const move = await measureMove(workspace, addressesToBranch, smallPush)
  const pushToManyRefs = await measureSmallPush(workspace, addressesOfManyRefs, smallPush)
  const pushOfBulk = await measureBigPush(workspace, hosts, bigPush)
  const sha256 = await makeSha256History(workspace, fixtures.steps.length)
  const addressesOfSha256 = await publishAll(sha256.history)
  const sha256ToFollow = await publishAll({ ...sha256.history, name: 'followed-sha256' })
  const sha256Push = { ...smallPush, ...sha256 }
  const sha256Listing = await measureListing(workspace, addressesOfSha256, upTo(effort.listings))
  const sha256Clone = await measureClone(workspace, addressesOfSha256, upTo(effort.clones))
  const sha256Follow = await measureFetchOfCommit(workspace, sha256ToFollow, sha256Push)
  const sha256Pushed = await measureSmallPush(workspace, addressesOfSha256, sha256Push)
  await svc.stop()
  return [
    timeRow('http: ls-remote', listing),
    besideLimit('http: ls-remote, beside a static reply', listing),
    timeRow('http: fetch without changes', fetch),
    besideLimit('http: fetch without changes, beside a static reply', fetch),
    timeRow('http: fetch of a commit', follow),
    timeRow('http: clone', clone),
    timeRow('http: push of a commit', push),
    timeRow('http: push of a new branch', newBranch),
    timeRow('http: push without objects', move),
    timeRow('http: push of a commit to 100,000 refs', pushToManyRefs),
    timeRow('http: push of 256 MiB', pushOfBulk),
    timeRow('http: SHA-256, ls-remote', sha256Listing),
    timeRow('http: SHA-256, clone', sha256Clone),
    timeRow('http: SHA-256, fetch of a commit', sha256Follow),
    timeRow('http: SHA-256, push of a commit', sha256Pushed),
  ]
}

/** Most of a short command is the start of git itself. */
function besideLimit(name: RowName, { values: { svc, limit = Number.NaN }, rounds }: Medians): Row {
  return timeRow(name, { values: { svc, limit }, rounds })
}
