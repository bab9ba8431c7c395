import { interleave, median } from './measure.ts'
import { print } from './print.ts'
import { mapServers, type Row, timeRow } from './rows.ts'
import { listingRequests, startWireClient, type Target } from './wire-client.ts'

type Options = {
  /** The repository, for requests of Git. */
  listed: Target
  /** Its pages, with another session each time. */
  nextSession: () => Target
  /** Commits of which no page has been opened. */
  commits: readonly string[]
  rounds: number
  seconds: number
}

const crawlers = 4
const roundMs = 1000
/** A session may open a few pages at a time. */
const pagesOfSession = 5

/** Measures ls-remote while crawlers open the page of one commit after the other, and without load. */
export async function measureListingDuringCrawl(options: Options): Promise<Row> {
  const name = 'pages: ls-remote while commits are crawled'
  print(`Measuring: ${name}`)
  const { listed, nextSession, commits, ...effort } = options
  const rest = [...commits]
  await using client = startWireClient()
  await using resources = new AsyncDisposableStack()
  const clients = Array.from({ length: crawlers }, () => resources.use(startWireClient()))

  async function list(): Promise<number> {
    const job = { connections: 1, ms: roundMs, requests: listingRequests() }
    return median((await client.run(listed, job)).latencies)
  }

  async function listDuringCrawl(): Promise<number> {
    let isOver = false
    async function crawl(crawler: (typeof clients)[number]): Promise<void> {
      while (!isOver) {
        const paths = rest.splice(-pagesOfSession).map((id) => `/commit/${id}`)
        if (paths.length === 0) throw new Error('There are too few commits for crawlers.')
        const requests = paths.map((path) => ({ method: 'GET' as const, path }))
        await crawler.run(nextSession(), { connections: 1, ms: 0, requests })
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

  const contestants = { svc: listDuringCrawl, idle: list }
  const { samples, rounds } = await interleave(contestants, effort)
  return timeRow(name, { values: mapServers(samples, median), rounds })
}
