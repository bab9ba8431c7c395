import { matchPages } from '#web/serve/match.ts'
import { pages } from '#web/serve/page-list.ts'
import type { PageAnswer, PageClient } from './page-client.ts'
import { type PageTag, readPage } from './page-markup.ts'

export type CrawledPage = { path: string; template: string; answer: PageAnswer; tags: PageTag[] }

type Options = {
  /** Browsers of the same user: each has a rate limit of its own. */
  clients: PageClient[]
  from: string[]
  /** The most pages of each kind that are opened. */
  mostOfEach: number
}

/** Opens the pages that are reached from some, by links and forms that read; faults of their markup are collected. */
export async function crawl({ clients, from, mostOfEach }: Options) {
  const crawled: CrawledPage[] = []
  const faults: string[] = []
  const counts = new Map<string, number>()
  const seen = new Set<string>()
  const queue = [...from]
  for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
    if (seen.has(path)) continue
    seen.add(path)
    const template = templateOf(path)
    const count = counts.get(template) ?? 0
    if (count >= mostOfEach) continue
    counts.set(template, count + 1)
    const answer = await getWithRotation(clients, path)
    const isPage = answer.headers.get('content-type')?.startsWith('text/html') ?? false
    const { tags, faults: found } = isPage ? readPage(answer.text) : { tags: [], faults: [] }
    faults.push(...found.map((fault) => `${path}: ${fault}`))
    crawled.push({ path, template, answer, tags })
    if (answer.location !== null) queue.push(withoutFragment(answer.location))
    for (const address of addressesIn(tags, path)) if (!seen.has(address)) queue.push(address)
  }
  return { crawled, faults, templates: [...counts.keys()] }
}

async function getWithRotation(clients: PageClient[], path: string): Promise<PageAnswer> {
  for (;;) {
    const client = clients.shift()
    if (!client) throw new Error(`all clients are limited: ${path}`)
    const answer = await client.get(path)
    if (answer.status === 429) continue
    clients.push(client)
    return answer
  }
}

function templateOf(path: string): string {
  const [plain = ''] = path.split('?')
  return matchPages(pages, 'GET', plain)[0]?.route.path ?? plain.split('/').slice(0, 3).join('/')
}

function addressesIn(tags: PageTag[], base: string): string[] {
  return tags
    .filter(({ name }) => name === 'a' || name === 'img')
    .map(({ attributes }) => attributes.get('href') ?? attributes.get('src') ?? '')
    .filter((address) => address !== '' && !address.startsWith('#'))
    .flatMap((address) => {
      const url = URL.parse(address, `http://own.invalid${base}`)
      return url?.origin === 'http://own.invalid' ? [url.pathname + url.search] : []
    })
    .filter((path) => /^\/(?:$|\?|r\/|-\/(?!assets))/.test(path))
}

function withoutFragment(path: string): string {
  return path.split('#', 1)[0] ?? ''
}
