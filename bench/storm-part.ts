import { join } from 'node:path'
import { stormRows } from './bounds.ts'
import type { Fixtures } from './fixtures.ts'
import { startHttpPeer } from './http-peer.ts'
import { say } from './output.ts'
import { makeManyPacks } from './pack-fixtures.ts'
import { installPeer } from './peer-programs.ts'
import { recordReplies, startStaticServer } from './static-replies.ts'
import { measureHeldClones, measureStorm } from './storm.ts'
import { startSubject } from './subject.ts'
import type { Row } from './table.ts'
import { type Target, wholeFetch, wireContest } from './wire.ts'
import type { Workspace } from './workspace.ts'

const packs = 100

/** Compares the cost of clones: many at once, unique ones, and repeated ones. */
export async function measureStorms(
  workspace: Workspace,
  { history, steps, bulk }: Fixtures,
  effort: { storms: number; clones: number; shallowMs: number; seconds: number },
): Promise<Row[]> {
  const { storms, clones, shallowMs: ms, seconds } = effort
  say(`Making a repository with ${packs} packs`)
  const inPacks = await makeManyPacks(workspace, history, packs)
  const programs = await installPeer('http')
  say('Starting git http-backend behind nginx and fcgiwrap, and svc')
  await using peer = await startHttpPeer(workspace, programs)
  await using subject = await startSubject({ dataDir: join(workspace.folder, 'data-storm') })
  const addresses = {
    svc: await subject.host.copy(history.name, history.path),
    peer: await peer.durable.copy(history.name, history.path),
  }
  for (const { name, path } of [inPacks, bulk]) {
    await workspace.git(['-C', path, 'pack-refs', '--all'])
    await subject.host.copy(name, path)
    await peer.durable.copy(name, path)
  }
  const targetsOf = (name: string): Record<'svc' | 'peer', Target> => ({
    svc: subject.target(name),
    peer: { ...peer, url: `${peer.url}/durable/${name}.git` },
  })
  const tipOf = async ({ path, ref }: { path: string; ref: string }) =>
    (await workspace.git(['-C', path, 'rev-parse', ref])).output

  const { svc } = targetsOf(history.name)
  // First, as it warms up svc; the peer starts new processes each time.
  const shallow = wholeFetch(await tipOf(history), 1)
  const again = await wireContest('a shallow clone again', targetsOf(history.name), {
    rounds: storms,
    seconds,
    connections: 1,
    ms,
    requests: () => shallow,
  })

  // Of the last commit, which includes all others.
  await using limit = await startStaticServer(await recordReplies(svc, steps.at(-1)))
  const pushTo = (address: string) => (round: number) => {
    const update = `${steps[round]}:refs/heads/storm-${round}`
    return workspace.git(['-C', history.path, 'push', '--quiet', address, update])
  }
  const sources = {
    svc: { ...svc, address: addresses.svc, renew: pushTo(addresses.svc) },
    peer: { ...peer, address: addresses.peer, renew: pushTo(addresses.peer) },
    limit: { ...limit, address: limit.url },
  }
  const storm = await measureStorm(workspace, sources, { rounds: storms, seconds })

  // Each round clones a branch that no server has served before.
  const branches = steps.map((step, number) => `${step}:refs/heads/unlike-${number}`)
  for (const address of Object.values(addresses)) {
    await workspace.git(['-C', history.path, 'push', '--quiet', address, ...branches])
  }
  const unlike = { rounds: clones, seconds, connections: 1, ms: 0 }
  const fresh = await wireContest('a clone, nothing kept', targetsOf(history.name), {
    ...unlike,
    requests: (round) => wholeFetch(steps[round] ?? ''),
  })
  const held = await measureHeldClones(workspace, {
    pid: subject.pid,
    target: subject.target(bulk.name),
    commit: await tipOf(bulk),
  })

  const { output } = await workspace.git(['-C', inPacks.path, 'rev-list', inPacks.ref])
  const commits = output.split('\n')
  const fromPacks = (what: string, first: number) =>
    wireContest(`a clone ${what}`, targetsOf(inPacks.name), {
      ...unlike,
      requests: (round) => wholeFetch(commits[first + round] ?? ''),
    })
  const before = await fromPacks(`of ${packs} packs`, 0)
  await subject.maintain(inPacks.name)
  const after = await fromPacks(`of ${packs} packs, maintained`, clones + 1)
  await subject.stop()
  return stormRows({ storm, fresh, again, held, packs: { before, after } })
}
