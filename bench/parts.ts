import { join } from 'node:path'
import { newSshKey, sshCommand } from '../test/support/openssh.ts'
import { pushBody } from '../test/support/raw-git.ts'
import { measureHugePush, measureIdle, measureStart } from './alone.ts'
import { startApachePeer } from './apache-peer.ts'
import {
  aloneRows,
  httpRows,
  importRows,
  loadRows,
  sshRows,
  webhookRows,
  workflowRows,
} from './bounds.ts'
import {
  compareOverHttp,
  compareOverSsh,
  type HttpEffort,
  publishHistory,
  type SshEffort,
} from './comparison.ts'
import { startDaemonPeer } from './daemon-peer.ts'
import { evenSizes, type Fixtures, makeBulk, makeProject } from './fixtures.ts'
import type { Host } from './host.ts'
import { startHttpPeer } from './http-peer.ts'
import { measureImport } from './imports.ts'
import { measureLoad, pushedName } from './load.ts'
import { publish } from './operations.ts'
import { say } from './output.ts'
import { installPeer } from './peer-programs.ts'
import { makeManyRefs } from './ref-fixtures.ts'
import { startSshPeer } from './ssh-peer.ts'
import { recordReplies, startStaticServer } from './static-replies.ts'
import { startSubject } from './subject.ts'
import type { Row } from './table.ts'
import {
  addWebhook,
  fillDeliveries,
  measureDeliveries,
  measureDeliveryList,
  measureToReceiver,
} from './webhooks.ts'
import { measureFirstStep, measureOutput, measureQueue, workflowFiles } from './workflows.ts'
import { type Workspace, withSsh } from './workspace.ts'

// Enough for clones that go on for a second.
const loadMib = 64

/** Compares svc with git http-backend, as a git client sees it; reading with git daemon, too. */
export async function measureOverHttp(
  workspace: Workspace,
  fixtures: Fixtures,
  effort: HttpEffort,
): Promise<Row[]> {
  const manyRefs = await makeManyRefs(workspace, fixtures.history, 100_000)
  const programs = await installPeer('http')
  const { apache2 } = await installPeer('apache')
  say('Starting git http-backend behind nginx and fcgiwrap, and below Apache; git daemon; and svc')
  await using peer = await startHttpPeer(workspace, programs)
  await using apache = await startApachePeer(workspace, { apache2, repositories: peer.folder })
  await using daemon = await startDaemonPeer(workspace, peer.folder)
  await using subject = await startSubject({ dataDir: usedDirOf(workspace) })
  const hosts = { svc: subject.host, peer: peer.durable, defaults: peer.defaults }
  const addresses = await publishHistory(workspace, hosts, fixtures)
  const replies = await recordReplies(subject.target('history'), await tipOf(workspace, fixtures))
  await using limit = await startStaticServer(replies)
  const readers = {
    svc: addresses.svc,
    peer: addresses.peer,
    apache: `${apache.url}/durable/history.git`,
    daemon: `${daemon.url}/durable/history.git`,
    limit: limit.url,
  }
  const copyTo = (host: Host) => host.copy(manyRefs.name, manyRefs.path)
  const ofManyRefs = { svc: await copyTo(hosts.svc), peer: await copyTo(hosts.peer) }
  const all = { fixtures, effort, addresses, readers, manyRefs: ofManyRefs }
  const results = await compareOverHttp(workspace, hosts, all)
  await subject.stop()
  return httpRows(results)
}

/** Compares svc with sshd, as a git client sees it. */
export async function measureOverSsh(
  workspace: Workspace,
  fixtures: Fixtures,
  effort: SshEffort,
): Promise<Row[]> {
  const { folder } = workspace
  const { sshd } = await installPeer('ssh')
  say('Starting sshd with git-shell, and svc')
  const key = await newSshKey(join(folder, 'key'))
  const knownHosts = join(folder, 'known-hosts')
  const client = withSsh(workspace, sshCommand({ key: key.path, knownHosts }))
  await using peer = await startSshPeer(client, { sshd, key })
  await using subject = await startSubject({ dataDir: join(folder, 'data-ssh') })
  const svc = await subject.overSsh(key)
  const hosts = { svc, peer: peer.durable, defaults: peer.defaults }
  const results = await compareOverSsh(client, hosts, { fixtures, effort })
  await subject.stop()
  return sshRows(results)
}

/** Measures how soon svc answers what is short while it has much to do. */
export async function measureUnderLoad(
  workspace: Workspace,
  { rounds }: { rounds: number },
): Promise<Row[]> {
  const bulk = await makeBulk(workspace, { name: 'load', sizes: evenSizes(loadMib) })
  const programs = await installPeer('http')
  say('Starting git http-backend behind nginx and fcgiwrap, and svc')
  await using peer = await startHttpPeer(workspace, programs)
  await using subject = await startSubject({ dataDir: join(workspace.folder, 'data-load') })
  const addresses = {
    svc: await publish(workspace, subject.host, bulk),
    peer: await publish(workspace, peer.durable, bulk),
  }
  const small = await makeProject(workspace, 'small', { 'readme.txt': 'Hello\n' })
  await publish(workspace, subject.host, small)
  const target = subject.target(small.name)
  const body = await pushBody(small.path, pushedName)
  const load = await measureLoad(workspace, { subject, addresses, push: { target, body }, rounds })
  await subject.stop()
  return loadRows(load)
}

/** Compares imports with `git clone --mirror` and `git fsck`: of a folder, and over HTTP from git http-backend. */
export async function measureImports(
  workspace: Workspace,
  { history }: Fixtures,
  { imports: rounds, seconds }: { imports: number; seconds: number },
): Promise<Row[]> {
  const programs = await installPeer('http')
  say('Starting git http-backend behind nginx and fcgiwrap, and svc')
  await using peer = await startHttpPeer(workspace, programs)
  await using subject = await startSubject({ dataDir: join(workspace.folder, 'data-import') })
  const effort = { rounds, seconds }
  const address = await publish(workspace, peer.defaults, history)
  // Only what is imported: the history has further commits for other comparisons.
  const source = join(workspace.folder, 'source.git')
  await workspace.git(['clone', '--quiet', '--mirror', address, source])
  const results = [
    await measureImport(workspace, subject, { from: 'a folder', source, ...effort }),
    await measureImport(workspace, subject, { from: 'HTTP', source: address, ...effort }),
  ]
  await subject.stop()
  return importRows(results)
}

/** Measures runs of workflows, with bubblewrap, beside bubblewrap alone. */
export async function measureWorkflows(
  workspace: Workspace,
  effort: { firstSteps: number; queues: number; outputs: number; seconds: number },
): Promise<Row[]> {
  const { firstSteps, queues, outputs, seconds } = effort
  say('Starting svc with a runner')
  const project = await makeProject(workspace, 'project', workflowFiles)
  const dataDir = join(workspace.folder, 'data-workflows')
  await using subject = await startSubject({ dataDir })
  await publish(workspace, subject.host, project)
  const upTo = (rounds: number) => ({ rounds, seconds })
  const firstStep = await measureFirstStep(subject, project, upTo(firstSteps))
  const output = await measureOutput(workspace, subject, project, upTo(outputs))
  await subject.stop()
  // One that has used all cores would know no better.
  await using confined = await startSubject({ dataDir })
  const queue = await measureQueue(workspace, confined, project, upTo(queues))
  await confined.stop()
  return workflowRows({ firstStep, queue, output })
}

/** Measures deliveries to a receiver that answers at once. */
export async function measureWebhooks(
  workspace: Workspace,
  effort: { toReceivers: number; deliveries: number; lists: number; seconds: number },
): Promise<Row[]> {
  const { toReceivers, deliveries, lists, seconds } = effort
  const name = 'webhooks'
  const dataDir = join(workspace.folder, 'data-webhooks')
  const { path } = await makeProject(workspace, name, { 'readme.txt': 'Hello\n' })
  const project = { name, path }
  const upTo = (rounds: number) => ({ rounds, seconds })
  await using subject = await startSubject({ dataDir })
  await subject.host.create(name)
  const toReceiver = await measureToReceiver(subject, project, upTo(toReceivers))
  await subject.stop()
  // One that has used all cores would know no better.
  await using confined = await startSubject({ dataDir })
  const delivered = await measureDeliveries(workspace, confined, project, upTo(deliveries))
  await confined.host.remove(name)
  await confined.host.create(name)
  const webhookId = await addWebhook(confined, name, 'http://127.0.0.1:9/')
  await confined.stop()
  fillDeliveries(dataDir, webhookId)
  await using filled = await startSubject({ dataDir })
  const list = await measureDeliveryList(filled, { name, webhookId }, upTo(lists))
  await filled.stop()
  return webhookRows({ toReceiver, delivered, list })
}

/** Measures svc by itself, after the comparison over HTTP. */
export async function measureAlone(
  workspace: Workspace,
  { starts, hasHugePush }: { starts: number; hasHugePush: boolean },
): Promise<Row[]> {
  const usedDir = usedDirOf(workspace)
  const start = await measureStart(workspace, usedDir, starts)
  const idle = await measureIdle(workspace, usedDir)
  const growth = hasHugePush ? await measureHugePush(workspace) : undefined
  return aloneRows({ start, idle, growth })
}

async function tipOf({ git }: Workspace, { history }: Fixtures): Promise<string> {
  return (await git(['-C', history.path, 'rev-parse', history.ref])).output
}

function usedDirOf({ folder }: Workspace): string {
  return join(folder, 'data')
}
