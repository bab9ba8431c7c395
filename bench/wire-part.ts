import { join } from 'node:path'
import { startApachePeer } from './apache-peer.ts'
import { wireRows } from './bounds.ts'
import type { Fixtures, Source } from './fixtures.ts'
import { startHttpPeer } from './http-peer.ts'
import { say } from './output.ts'
import { installPeer } from './peer-programs.ts'
import { makeManyRefs } from './ref-fixtures.ts'
import { recordReplies, startStaticServer } from './static-replies.ts'
import { startSubject } from './subject.ts'
import type { Row } from './table.ts'
import { listingPair, pushAdvertisement, type Request, type Target, wireContest } from './wire.ts'
import type { Workspace } from './workspace.ts'

/** Compares the throughput and latency of svc and others over persistent connections. */
export async function measureOnWire(
  workspace: Workspace,
  { history }: Fixtures,
  effort: { rounds: number; ms: number; seconds: number },
): Promise<Row[]> {
  say('Creating repositories with 20,000 and with 100,000 refs')
  const tiny = await makeManyRefs(workspace, history, 1)
  const many = await makeManyRefs(workspace, history, 20_000)
  const most = await makeManyRefs(workspace, history, 100_000)
  const nginx = await installPeer('http')
  const { apache2 } = await installPeer('apache')
  say('Starting git http-backend behind nginx and fcgiwrap, and below Apache; and svc')
  await using peer = await startHttpPeer(workspace, nginx)
  await using apache = await startApachePeer(workspace, { apache2, repositories: peer.folder })
  await using subject = await startSubject({ dataDir: join(workspace.folder, 'data-wire') })

  for (const { name, path } of [tiny, many, most]) {
    await subject.host.copy(name, path)
    await peer.durable.copy(name, path)
  }
  const targetsOf = ({ name }: Source) => ({
    svc: subject.target(name),
    peer: { ...peer, url: `${peer.url}/durable/${name}.git` },
    apache: { ...apache, url: `${apache.url}/durable/${name}.git` },
  })
  const measure = async (source: Source, connections: number, requests: Request[], what: string) =>
    await wireContest(`${what}, connections: ${connections}`, targetsOf(source), {
      ...effort,
      connections,
      requests: () => requests,
    })
  await using limit = await startStaticServer(await recordReplies(subject.target(tiny.name)))
  const listTiny = (connections: number) => {
    const targets: Record<string, Target> = { ...targetsOf(tiny), limit }
    const requests = listingPair()
    const what = `listing of 1 ref, connections: ${connections}`
    return wireContest(what, targets, { ...effort, connections, requests: () => requests })
  }
  const result = {
    one: await listTiny(1),
    eight: await listTiny(8),
    many: await listTiny(32),
    manyRefs: await measure(many, 8, listingPair(), 'listing of 20,000 refs'),
    prefix: await measure(many, 8, listingPair('refs/heads/main'), 'listing of 1 of 20,000 refs'),
    push: await measure(most, 8, pushAdvertisement, 'begin of a push to 100,000 refs'),
  }
  await subject.stop()
  return wireRows(result)
}
