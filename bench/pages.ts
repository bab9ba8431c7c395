import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { logIn } from '../test/support/page-client.ts'
import type { BrowseEffort } from './browse.ts'
import { browsedFolder, filePath, longFile, makeBrowsedHistory } from './browse-history.ts'
import { startBrowsePeers } from './browse-peers.ts'
import { measureListingDuringCrawl } from './crawl.ts'
import { interleave, median } from './measure.ts'
import { measureIdle } from './memory.ts'
import { installPeer } from './peers.ts'
import { print } from './print.ts'
import { bytesRow, mapServers, type Row, type RowName, timeRow } from './rows.ts'
import { type Svc, startSvc } from './svc.ts'
import { startWireClient, type Target } from './wire-client.ts'
import type { Workspace } from './workspace.ts'

type PageEffort = Omit<BrowseEffort, 'commits'>

/** The paths of a page of svc and of cgit; those of the same index are about the same objects. */
type ComparedPage = {
  row: RowName
  again: RowName
  paths: (index: number) => { svc: string; cgit: string }
  isSlow?: boolean
}

const name = 'history'
// Pages are limited by session. A job takes a part of what one may request at once.
const sessionCount = 40
// A server that has run for a while has compiled the code of its pages.
const warmUpPages = 60

/** Compares the pages of svc with those of cgit, both behind nginx, and measures what pages weigh. */
export async function measurePages(
  workspace: Workspace,
  { size, ...effort }: PageEffort,
): Promise<Row[]> {
  const history = await makeBrowsedHistory(workspace, size)
  const programs = await installPeer('browse')
  await using svc = await startSvc({ dataDir: join(workspace.folder, 'data-pages') })
  const address = await svc.host.copy(name, history.path)
  await using peers = await startBrowsePeers(workspace, {
    programs,
    repository: history.path,
    svcPort: Number(new URL(svc.url).port),
  })
  const sessions = await openSessions(svc)
  const cgit = { url: `${peers.cgit}/${name}`, cpuMs: () => Number.NaN }
  const nextOf = (cookies: string[], url: string) => (): Target => {
    const cookie = cookies.shift() ?? ''
    cookies.push(cookie)
    return { url: `${url}/r/${name}`, cookie, cpuMs: () => Number.NaN }
  }
  const nextSvc = nextOf(sessions, peers.svc)
  const count = effort.rounds * effort.requests + effort.requests + warmUpPages
  const commitOf = (index: number) =>
    history.commits[history.commits.length - 1 - count + index] ?? ''
  const rows: Row[] = []
  for (const path of ['', `:${browsedFolder}`])
    await untilLastCommits(`${svc.url}/r/${name}/src/${commitOf(0)}${path}`, nextSvc, workspace)
  for (const page of comparedPages(commitOf)) {
    const requests = page.isSlow ? 1 : effort.requests
    const first = (round: number, index: number) => round * requests + index
    if (!page.isSlow) await warmUp(page)
    rows.push(await measureRow(page.row, first, requests))
    rows.push(await measureRow(page.again, () => 1, requests))

    async function warmUp({ paths }: ComparedPage): Promise<void> {
      await using client = startWireClient()
      for (let done = 0; done < warmUpPages; done += requests) {
        const length = Math.min(requests, warmUpPages - done)
        const list = Array.from({ length }, (_, index) => {
          const { svc: path } = paths(count - warmUpPages + done + index)
          return { method: 'GET' as const, path }
        })
        await client.run(nextSvc(), { connections: 1, ms: 0, requests: list })
      }
    }

    async function measureRow(
      row: RowName,
      indexOf: (round: number, index: number) => number,
      length: number,
    ): Promise<Row> {
      print(`Measuring: ${row}`)
      await using client = startWireClient()
      const contestants = mapServers({ svc: nextSvc, cgit: () => cgit }, (target, server) => {
        return async (round: number) => {
          const list = Array.from({ length }, (_, index) => {
            const paths = page.paths(indexOf(round, index))
            return { method: 'GET' as const, path: server === 'svc' ? paths.svc : paths.cgit }
          })
          const job = { connections: 1, ms: 0, requests: list }
          const { latencies } = await client.run(target(), job)
          return median(latencies) / length
        }
      })
      const { samples, rounds } = await interleave(contestants, effort)
      return timeRow(row, { values: mapServers(samples, median), rounds })
    }
  }
  rows.push(
    ...(await measureListingDuringCrawl(workspace, {
      ...effort,
      listed: { address, target: svc.target(name) },
      nextSession: nextOf(await openSessions(svc), svc.url),
      cgit,
      commits: history.commits.slice(0, -1 - count),
    })),
  )
  rows.push(...(await weigh(svc, sessions, commitOf(1))))
  await svc.stop()
  return [...rows, await measureIdlePages(workspace)]
}

/** Cookies of sessions with tokens of their own. */
function openSessions(svc: Svc): Promise<string[]> {
  return Promise.all(
    Array.from({ length: sessionCount }, async () => {
      const { token } = await svc.call('POST', '/tokens', { name: 'bench', permissions: ['admin'] })
      return (await logIn(svc.url, token)).cookie()
    }),
  )
}

/** Waits for the last commit of each entry of a folder, which a service that runs has since the push before. */
async function untilLastCommits(url: string, next: () => Target, { signal }: Workspace) {
  for (;;) {
    const { cookie = '' } = next()
    const text = await (await fetch(url, { headers: { cookie }, signal })).text()
    const entries = /id="entries"( data-again)?/.exec(text)
    if (!entries) throw new Error(`${url} is not the page of a folder: ${text}`)
    if (entries[1] === undefined) return
    await pause(500, undefined, { signal })
  }
}

function comparedPages(commitOf: (index: number) => string): ComparedPage[] {
  const fileOf = (index: number) => filePath(index * 7)
  const at = (index: number, path: string) => `${commitOf(index)}:${path}`
  return [
    {
      row: 'pages: tree of the root',
      again: 'pages: tree of the root, again',
      paths: (index) => ({ svc: `/src/${commitOf(index)}`, cgit: `/tree/?id=${commitOf(index)}` }),
    },
    {
      row: 'pages: tree of a folder',
      again: 'pages: tree of a folder, again',
      paths: (index) => ({
        svc: `/src/${at(index, browsedFolder)}`,
        cgit: `/tree/${browsedFolder}/?id=${commitOf(index)}`,
      }),
    },
    {
      row: 'pages: log',
      again: 'pages: log, again',
      paths: (index) => ({ svc: `/log/${commitOf(index)}`, cgit: `/log/?id=${commitOf(index)}` }),
    },
    {
      row: 'pages: log of a file',
      again: 'pages: log of a file, again',
      paths: (index) => ({
        svc: `/log/${at(index, fileOf(index))}`,
        cgit: `/log/${fileOf(index)}?id=${commitOf(index)}`,
      }),
    },
    {
      row: 'pages: commit',
      again: 'pages: commit, again',
      paths: (index) => ({
        svc: `/commit/${commitOf(index)}`,
        cgit: `/commit/?id=${commitOf(index)}`,
      }),
    },
    {
      row: 'pages: file',
      again: 'pages: file, again',
      paths: (index) => ({
        svc: `/src/${at(index, fileOf(index))}`,
        cgit: `/tree/${fileOf(index)}?id=${commitOf(index)}`,
      }),
    },
    {
      row: 'pages: long file',
      again: 'pages: long file, again',
      isSlow: true,
      paths: (index) => ({
        svc: `/src/${at(index, longFile)}`,
        cgit: `/tree/${longFile}?id=${commitOf(index)}`,
      }),
    },
    {
      row: 'pages: blame of a long file',
      again: 'pages: blame of a long file, again',
      isSlow: true,
      paths: (index) => ({
        svc: `/blame/${at(index, longFile)}`,
        cgit: `/blame/${longFile}?id=${commitOf(index)}`,
      }),
    },
  ]
}

/** The bytes of pages as they are sent, without styles and scripts, which a browser has after the first one. */
async function weigh(svc: Svc, [cookie = '']: string[], commit: string): Promise<Row[]> {
  const bytesOf = async (path: string) => {
    const headers = { cookie, 'accept-encoding': 'gzip' }
    const response = await fetch(svc.url + path, { headers })
    const text = await response.text()
    const length = response.headers.get('content-length')
    return { bytes: Number(length ?? Buffer.byteLength(text)), text }
  }
  const at = `/r/${name}`
  const { bytes, text } = await bytesOf(`${at}/commit/${commit}`)
  const [styles = '', script = ''] = ['css', 'js'].map(
    (kind) => new RegExp(`"(/-/assets/[^"]*\\.${kind})"`).exec(text)?.[1] ?? '',
  )
  return [
    weightRow('pages: weight of the list of repositories', (await bytesOf('/')).bytes),
    weightRow(
      'pages: weight of a tree',
      (await bytesOf(`${at}/src/${commit}:${browsedFolder}`)).bytes,
    ),
    weightRow('pages: weight of a log', (await bytesOf(`${at}/log/${commit}`)).bytes),
    weightRow('pages: weight of a commit', bytes),
    weightRow('pages: weight of styles', (await bytesOf(styles)).bytes),
    weightRow('pages: weight of the script', (await bytesOf(script)).bytes),
  ]
}

/** Weights are a few kilobytes, too few for the unit of memory. */
function weightRow(name: RowName, bytes: number): Row {
  return { name, unit: 'count', values: { svc: bytes } }
}

/** What pages that are not opened take of memory. */
async function measureIdlePages(workspace: Workspace): Promise<Row> {
  print('Measuring: memory of pages that are not opened')
  const measure = (pages: 'on' | 'off') =>
    measureIdle(workspace, {
      dataDir: join(workspace.folder, `data-pages-${pages}`),
      env: { SVC_PAGES: pages },
    })
  const withPages = await measure('on')
  const without = await measure('off')
  return bytesRow(
    'pages: memory when idle, more than without',
    withPages.pssAlone - without.pssAlone,
  )
}
