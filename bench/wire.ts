import { join } from 'node:path'
import { type Fixtures, makeManyRefs, type Source } from './fixtures.ts'
import { compareOnWire, mediansOf, type WireResult } from './measure.ts'
import { installPeer, startApachePeer, startHttpPeer } from './peers.ts'
import { print } from './print.ts'
import { type PerServer, type Row, type RowName, timeRow } from './rows.ts'
import { recordReplies, startStaticServer } from './static-server.ts'
import { startSvc } from './svc.ts'
import { listingRequests, pushAdvertisement, type Request, type Target } from './wire-client.ts'
import type { Workspace } from './workspace.ts'

/** Compares the throughput and latency of listings over persistent connections. */
export async function measureWire(
  workspace: Workspace,
  { history }: Fixtures,
  effort: { rounds: number; ms: number; seconds: number },
): Promise<Row[]> {
  print('Creating repositories with 20,000 and with 100,000 refs')
  const tiny = await makeManyRefs(workspace, history, 1)
  const many = await makeManyRefs(workspace, history, 20_000)
  const most = await makeManyRefs(workspace, history, 100_000)
  print('Starting git http-backend behind nginx and fcgiwrap, and behind Apache; and svc')
  await using peer = await startHttpPeer(workspace, await installPeer('http'))
  const { apache2 } = await installPeer('apache')
  await using apache = await startApachePeer(workspace, { apache2, repositories: peer.folder })
  await using svc = await startSvc({ dataDir: join(workspace.folder, 'data-wire') })

  for (const { name, path } of [tiny, many, most]) {
    await svc.host.copy(name, path)
    await peer.durable.copy(name, path)
  }
  await using limit = await startStaticServer(await recordReplies(svc.target(tiny.name)))
  const targetsOf = ({ name }: Source): PerServer<Target> => ({
    svc: svc.target(name),
    peer: peer.target(name),
    apache: { ...apache, url: `${apache.url}/durable/${name}.git` },
    ...(name === tiny.name && { limit }),
  })
  const measure = async (name: RowName, source: Source, connections: number, list: Request[]) => {
    const requests = () => list
    return rateRows(
      name,
      await compareOnWire(name, targetsOf(source), { ...effort, connections, requests }),
    )
  }
  const one = await compareOnWire('wire: listing of 1 ref', targetsOf(tiny), {
    ...effort,
    requests: () => listingRequests(),
  })
  const main = listingRequests('refs/heads/main')
  const rows = [
    timeRow('wire: listing of 1 ref, p50', mediansOf(one, 'p50')),
    ...(await measure('wire: listing of 1 ref, 8 connections', tiny, 8, listingRequests())),
    ...(await measure('wire: listing of 1 ref, 32 connections', tiny, 32, listingRequests())),
    ...(await measure('wire: listing of 20,000 refs', many, 8, listingRequests())),
    ...(await measure('wire: listing of 1 of 20,000 refs', many, 8, main)),
    ...(await measure('wire: begin of a push to 100,000 refs', most, 8, pushAdvertisement)),
  ]
  await svc.stop()
  return rows
}

function rateRows(name: RowName, result: WireResult): Row[] {
  return [
    { name, unit: 'per second', ...mediansOf(result, 'perSecond') },
    timeRow('  p50', mediansOf(result, 'p50')),
    timeRow('  p99', mediansOf(result, 'p99')),
    timeRow('  CPU time', mediansOf(result, 'cpu')),
  ]
}
