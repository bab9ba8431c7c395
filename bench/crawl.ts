import { interleave, median } from './measure.ts'
import { print } from './print.ts'
import { mapServers, type Row, timeRow } from './rows.ts'
import { listingRequests, startWireClient, type Target } from './wire-client.ts'
import type { Workspace } from './workspace.ts'

type Options = {
  /** The repository, for the git client and for prepared requests. */
  listed: { address: string; target: Target }
  /** Its pages, with another session each time. */
  nextSession: () => Target
  /** The same pages of cgit. */
  cgit: Target
  /** Commits of which no page has been opened. */
  commits: readonly string[]
  rounds: number
  seconds: number
}

const crawlers = 4
const roundMs = 500
/** A session may open a few pages at a time. */
const pagesOfSession = 5

/**
 * Measures the listing of refs, by git and on the wire, while crawlers open the page of one commit after the other, while
 * others open those of cgit, which shows the effect of the machine alone, and without load.
 */
export async function measureListingDuringCrawl(
  { git }: Workspace,
  options: Options,
): Promise<Row[]> {
  const { listed, nextSession, cgit, commits, ...effort } = options
  const rest = { svc: [...commits], cgit: [...commits] }
  await using client = startWireClient()
  await using resources = new AsyncDisposableStack()
  const clients = Array.from({ length: crawlers }, () => resources.use(startWireClient()))

  async function listOnWire(): Promise<number> {
    const job = { connections: 1, ms: roundMs, requests: listingRequests() }
    return median((await client.run(listed.target, job)).latencies)
  }

  async function listByGit(): Promise<number> {
    const latencies: number[] = []
    const startedAt = performance.now()
    while (performance.now() - startedAt < roundMs)
      latencies.push((await git(['ls-remote', listed.address])).elapsedMs)
    return median(latencies)
  }

  async function duringCrawl(
    server: keyof typeof rest,
    list: () => Promise<number>,
    next: () => Target,
    pathOf: (id: string) => string,
  ): Promise<number> {
    let isOver = false
    async function crawl(crawler: (typeof clients)[number]): Promise<void> {
      while (!isOver) {
        const paths = rest[server].splice(-pagesOfSession).map(pathOf)
        if (paths.length === 0) throw new Error('There are too few commits for crawlers.')
        const requests = paths.map((path) => ({ method: 'GET' as const, path }))
        await crawler.run(next(), { connections: 1, ms: 0, requests })
      }
    }
    const crawling = Promise.all(clients.map(crawl))
    try {
      // The failure of a crawler ends the measurement, too.
      return await Promise.race([list(), crawling.then(() => Number.NaN)])
    } finally {
      isOver = true
      await crawling
    }
  }

  const rows: Row[] = []
  for (const [name, list] of [
    ['pages: ls-remote while commits are crawled', listByGit],
    ['pages: listing while commits are crawled', listOnWire],
  ] as const) {
    print(`Measuring: ${name}`)
    const contestants = {
      svc: () => duringCrawl('svc', list, nextSession, (id) => `/commit/${id}`),
      cgit: () =>
        duringCrawl(
          'cgit',
          list,
          () => cgit,
          (id) => `/commit/?id=${id}`,
        ),
      idle: list,
    }
    const { samples, rounds } = await interleave(contestants, effort)
    rows.push(timeRow(name, { values: mapServers(samples, median), rounds }))
  }
  return rows
}
