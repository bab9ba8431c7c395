import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { measureHealth } from './browse-health.ts'
import {
  type BrowsedHistory,
  browsedFolder,
  filePath,
  type HistorySize,
  longFile,
  makeBrowsedHistory,
} from './browse-history.ts'
import { startBrowsePeers } from './browse-peers.ts'
import { compare, type Effort, interleave, median } from './measure.ts'
import { installPeer } from './peers.ts'
import { print } from './print.ts'
import { mapServers, type PerServer, type Row, type RowName, timeRow } from './rows.ts'
import { type Svc, startSvc } from './svc.ts'
import { startWireClient, type Target } from './wire-client.ts'
import type { Workspace } from './workspace.ts'

export type BrowseEffort = Effort & {
  size: HistorySize
  /** How many different pages a round requests. */
  requests: number
  /** How many commits are made. */
  commits: number
}

type Server = 'svc' | 'cgit' | 'gitweb'

/** The paths of a page; those of the same index are about the same objects. */
type Page = {
  row: RowName
  again: RowName
  paths: (index: number) => Partial<Record<Server, string>> & { svc: string }
  /** A page that takes so long that a round requests it once. */
  isSlow?: boolean
}

const name = 'history'

/** Compares svc with cgit and gitweb, all behind nginx, and commits by requests with those by `git push`. */
export async function measureBrowsing(
  workspace: Workspace,
  { size, commits, ...effort }: BrowseEffort,
): Promise<Row[]> {
  const history = await makeBrowsedHistory(workspace, size)
  print('Starting cgit and gitweb behind nginx and fcgiwrap; svc')
  const programs = await installPeer('browse')
  await using svc = await startSvc({ dataDir: join(workspace.folder, 'data-browse') })
  await svc.copyAndMaintain(name, history.path)
  await using peers = await startBrowsePeers(workspace, {
    programs,
    repository: history.path,
    svcPort: Number(new URL(svc.url).port),
  })
  const { authorization } = svc.apiTarget('')
  const targetAt = (url: string): Target => ({ url, cpuMs: () => Number.NaN })
  const targets = {
    svc: { ...targetAt(`${peers.svc}/repos/${name}`), authorization },
    cgit: targetAt(`${peers.cgit}/${name}`),
    gitweb: targetAt(`${peers.gitweb}/`),
  }
  const rows: Row[] = []
  for (const page of pagesOf(history, effort.rounds * effort.requests + effort.requests)) {
    if (!(await isServed(targets.svc, page.paths(0).svc))) {
      print(`Not measured, since svc has no such page: ${page.row}`)
      continue
    }
    await prepare(targets.svc, page.paths(0).svc, workspace.signal)
    rows.push(await measureFirst(page, targets, effort), await measureAgain(page, targets, effort))
  }
  rows.push(...(await measureCommits(workspace, svc, { ...effort, rounds: commits })))
  await svc.stop()
  return [...rows, ...(await measureHealth(workspace))]
}

/** `count` is the number of indexes that are requested. */
function pagesOf({ commits }: BrowsedHistory, count: number): Page[] {
  // The newest commits, from old to new, as pushes bring them.
  const commitOf = (index: number) => commits[commits.length - 1 - count + index] ?? ''
  const ofCommit = (index: number) => `rev=${commitOf(index)}`
  const gitweb = (action: string, more: string) => `?p=history.git;a=${action};${more}`
  const inFolder = `path=${browsedFolder}`
  const fileOf = (index: number) => filePath(index * 7)
  return [
    {
      row: 'browse: tree of the root',
      again: 'browse: tree of the root, again',
      paths: (index) => ({
        svc: `/tree?limit=1000&${ofCommit(index)}`,
        cgit: `/tree/?id=${commitOf(index)}`,
        gitweb: gitweb('tree', `hb=${commitOf(index)}`),
      }),
    },
    {
      row: 'browse: tree of a folder',
      again: 'browse: tree of a folder, again',
      paths: (index) => ({
        svc: `/tree?limit=1000&${inFolder}&${ofCommit(index)}`,
        cgit: `/tree/${browsedFolder}/?id=${commitOf(index)}`,
        gitweb: gitweb('tree', `f=${browsedFolder};hb=${commitOf(index)}`),
      }),
    },
    {
      row: 'browse: log',
      again: 'browse: log, again',
      paths: (index) => ({
        svc: `/commits?limit=50&${ofCommit(index)}`,
        cgit: `/log/?id=${commitOf(index)}`,
        gitweb: gitweb('log', `h=${commitOf(index)}`),
      }),
    },
    {
      row: 'browse: log of a file',
      again: 'browse: log of a file, again',
      paths: (index) => ({
        svc: `/commits?limit=50&path=${fileOf(index)}&${ofCommit(index)}`,
        cgit: `/log/${fileOf(index)}?id=${commitOf(index)}`,
        gitweb: gitweb('history', `f=${fileOf(index)};hb=${commitOf(index)}`),
      }),
    },
    {
      row: 'browse: commit with its diff',
      again: 'browse: commit with its diff, again',
      paths: (index) => ({
        svc: `/commits/${commitOf(index)}?diff=1`,
        cgit: `/commit/?id=${commitOf(index)}`,
        gitweb: gitweb('commitdiff', `h=${commitOf(index)}`),
      }),
    },
    {
      row: 'browse: file',
      again: 'browse: file, again',
      paths: (index) => ({
        svc: `/file?path=${fileOf(index)}&${ofCommit(index)}`,
        cgit: `/plain/${fileOf(index)}?id=${commitOf(index)}`,
        gitweb: gitweb('blob_plain', `f=${fileOf(index)};hb=${commitOf(index)}`),
      }),
    },
    blameOf('browse: blame', { fileOf, commitOf }),
    blameOf('browse: blame of a long file', { fileOf: () => longFile, commitOf }),
    {
      row: 'browse: search',
      again: 'browse: search, again',
      paths: (index) => ({
        // Numbers begin the lines of all files.
        svc: `/search?q=${1000 + index * 13}&limit=1000&${ofCommit(index)}`,
        gitweb: gitweb('search', `st=grep;s=${1000 + index * 13};h=${commitOf(index)}`),
      }),
    },
  ]
}

function blameOf(
  row: 'browse: blame' | 'browse: blame of a long file',
  { fileOf, commitOf }: Record<'fileOf' | 'commitOf', (index: number) => string>,
): Page {
  return {
    row,
    again: `${row}, again`,
    isSlow: true,
    paths: (index) => ({
      svc: `/blame?path=${fileOf(index)}&rev=${commitOf(index)}`,
      cgit: `/blame/${fileOf(index)}?id=${commitOf(index)}`,
      gitweb: `?p=history.git;a=blame;f=${fileOf(index)};hb=${commitOf(index)}`,
    }),
  }
}

async function isServed({ url, authorization = '' }: Target, path: string): Promise<boolean> {
  const response = await fetch(url + path, { headers: { authorization } })
  await response.arrayBuffer()
  return response.ok
}

/** Waits for the last commit of each entry, which a service that runs has since the push before. */
async function prepare(
  { url, authorization = '' }: Target,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  if (!path.startsWith('/tree')) return
  for (;;) {
    const response = await fetch(url + path, { headers: { authorization }, signal })
    const { lastCommitsComplete } = Object(await response.json())
    if (lastCommitsComplete !== false) return
    await pause(500, undefined, { signal })
  }
}

type Targets = Record<Server, Target>

/** Each round requests other pages, so that no server has seen them. */
function measureFirst(
  { row, paths, isSlow = false }: Page,
  targets: Targets,
  effort: Omit<BrowseEffort, 'size' | 'commits'>,
): Promise<Row> {
  const count = isSlow ? 1 : effort.requests
  return measurePages(row, { paths, targets, effort }, (round, pathOf) =>
    Array.from({ length: count }, (_, index) => pathOf(round * count + index)),
  )
}

/** All rounds request the same page. */
function measureAgain(
  { again, paths, isSlow = false }: Page,
  targets: Targets,
  effort: Omit<BrowseEffort, 'size' | 'commits'>,
): Promise<Row> {
  const { requests } = effort
  return measurePages(again, { paths, targets, effort }, (_, pathOf, server) =>
    // The others compute it each time.
    Array.from({ length: isSlow && server !== 'svc' ? 1 : requests }, () => pathOf(1)),
  )
}

type Measured = {
  paths: Page['paths']
  targets: Targets
  effort: Omit<BrowseEffort, 'size' | 'commits'>
}

/** The time of one request, on one connection. */
async function measurePages(
  row: RowName,
  { paths, targets, effort }: Measured,
  pathsOfRound: (round: number, pathOf: (index: number) => string, server: string) => string[],
): Promise<Row> {
  print(`Measuring: ${row}`)
  await using client = startWireClient()
  const { svc, ...others } = paths(0)
  const measured: PerServer<Target> = {
    svc: targets.svc,
    ...(others.cgit && { cgit: targets.cgit }),
    ...(others.gitweb && { gitweb: targets.gitweb }),
  }
  const contestants = mapServers(measured, (target, server) => async (round: number) => {
    const pathOf = (index: number) => paths(index)[server as Server] ?? svc
    const list = pathsOfRound(round, pathOf, server)
    const requests = list.map((path) => ({ method: 'GET' as const, path }))
    const { latencies } = await client.run(target, { connections: 1, ms: 0, requests })
    return median(latencies) / requests.length
  })
  const { samples, rounds } = await interleave(contestants, effort)
  return timeRow(row, { values: mapServers(samples, median), rounds })
}

/** A commit of one file: by a request, and with `git push` of one that is there already. */
async function measureCommits(
  { git, folder }: Workspace,
  svc: Svc,
  { rounds, seconds }: Effort,
): Promise<Row[]> {
  const path = join(folder, 'commits')
  const addresses = {
    svc: await svc.host.create('by-request'),
    push: await svc.host.create('pushed'),
  }
  await git(['init', '--quiet', '--initial-branch=main', path])
  const identity = { 'user.name': 'Ada', 'user.email': 'ada@example.com' }
  const commit = async (index: number) => {
    const options = ['-C', path, 'commit', '--quiet', '--allow-empty', '-m', `Step ${index}`]
    await git(options, { config: identity })
  }
  await commit(0)
  for (const address of Object.values(addresses))
    await git(['-C', path, 'push', '--quiet', address, 'main'])
  const make = async (index: number) => {
    const changes = [{ path: `step-${index % 10}.txt`, content: `Step ${index}\n` }]
    const body = { branch: 'main', message: `Step ${index}`, changes }
    await svc.call('POST', '/repos/by-request/commits', body)
  }
  try {
    await make(0)
  } catch {
    print('Not measured, since svc has no such request: browse: commit by a request')
    return []
  }
  const medians = await compare(
    'commit by a request',
    {
      async svc(round) {
        const startedAt = performance.now()
        await make(round + 1)
        return performance.now() - startedAt
      },
      async push(round) {
        await commit(round + 1)
        const options = ['-C', path, 'push', '--quiet', addresses.push, 'main']
        return (await git(options)).elapsedMs
      },
    },
    { rounds, seconds },
  )
  return [timeRow('browse: commit by a request', medians)]
}
