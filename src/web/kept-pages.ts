import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { Problem } from '../base/problem.ts'
import { statusOf } from '../http/problem-response.ts'
import type { OperationResult } from '../http/route.ts'
import {
  type Page,
  type PageContext,
  RawResponse,
  Redirect,
  type SharedContext,
  type View,
} from './page.ts'
import { PageBody } from './page-body.ts'
import { createReaders, type PageCall, type PageInput } from './page-context.ts'
import { PageTime } from './page-time.ts'

/** A page whose body may be kept. */
export type KeptView = Omit<View, 'body'> & { body: PageBody }

/** A call of an operation for a page, and what came of it. */
type Read = { operation: string; input: PageInput; key: string; answer: string }

/** A page as it was made: it is right as long as all that it read is the same, for a time. */
type Kept = { view: KeptView; checks: Read[]; madeAt: number; validUntil: number }

// A page has several where its readers have different rights.
const maxVariants = 4
// A few large pages should not displace all others.
const maxShare = 0.25
const fixedBytes = 1000

/**
 * Keeps pages by their address and by what they read, never by their reader. What a kept page has read is read again before it
 * is shown, with the rights of the caller: operations then answer only whether that is still the same, which takes no
 * reading of objects. So access is checked, and nothing is shown that a new page would not show.
 */
export function createKeptPages({ maxBytes }: { maxBytes: number }) {
  const pages = new LRUCache<string, Kept[]>({
    maxSize: Math.max(1, maxBytes),
    maxEntrySize: Math.max(1, Math.floor(maxBytes * maxShare)),
    sizeCalculation: (variants, key) => key.length + sum(variants.map(sizeOf)),
  })

  return async (
    page: Page,
    context: PageContext,
  ): Promise<KeptView | View | RawResponse | Redirect> => {
    const key = [context.baseUrl, context.isLoggedIn, context.url].join('\n')
    const variants = (pages.get(key) ?? []).filter((kept) => isValidAt(kept, context.now))
    const check = createChecks(context, variants)
    for (const kept of variants) if (await isCurrent(kept, check)) return kept.view
    const made = await make(page, context)
    if (!('kept' in made)) return made.result
    const others = (pages.get(key) ?? []).filter(
      (kept) => isValidAt(kept, context.now) && kept.view.body.tag !== made.kept.view.body.tag,
    )
    pages.set(key, [made.kept, ...others].slice(0, maxVariants))
    return made.kept.view
  }
}

function isValidAt({ madeAt, validUntil }: Kept, now: number): boolean {
  return madeAt <= now && now < validUntil
}

/** Compressed, a body takes less than as much again. */
function sizeOf({ view, checks }: Kept): number {
  const texts = checks.map(({ key, answer }) => 2 * key.length + answer.length)
  return fixedBytes + 2 * view.body.bytes.length + sum(texts)
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0)
}

type Check = (read: Read) => Promise<string | undefined>

async function isCurrent({ checks }: Kept, check: Check): Promise<boolean> {
  const answers = await Promise.all(checks.map(check))
  return checks.every(({ answer }, index) => answer === answers[index])
}

/** Reads again what was read for some pages, each once. */
function createChecks({ call }: PageContext, variants: readonly Kept[]): Check {
  const known = new Map<string, Set<string>>()
  for (const { key, answer } of variants.flatMap(({ checks }) => checks))
    if (answer.startsWith('"')) known.set(key, (known.get(key) ?? new Set()).add(answer))
  const checked = new Map<string, Promise<string | undefined>>()

  async function read({ operation, input, key }: Read): Promise<string | undefined> {
    const tags = known.get(key)
    try {
      const ifNoneMatch = tags && [...tags].join(', ')
      return answerOf(await call(operation, { ...input, ...(ifNoneMatch && { ifNoneMatch }) }))
    } catch (error) {
      return answerOfProblem(error)
    }
  }

  return (one) => {
    const answer = checked.get(one.key) ?? read(one)
    checked.set(one.key, answer)
    return answer
  }
}

type Made = { kept: Kept } | { result: View | RawResponse | Redirect }

/** Makes a page, and notes what it read. */
async function make(page: Page, context: PageContext): Promise<Made> {
  const reads = new Map<string, Read>()
  let isProvisional = false
  const markProvisional = () => {
    isProvisional = true
  }

  const call: PageCall = async (operation, input = {}) => {
    function note(answer: string | undefined): void {
      const key = keyOf(operation, input)
      const before = reads.get(key)
      // Something has changed meanwhile.
      if (answer === undefined || (before && before.answer !== answer)) markProvisional()
      else reads.set(key, { operation, input, key, answer })
    }
    try {
      const result = await context.call(operation, input)
      note(answerOf(result))
      return result
    } catch (error) {
      note(answerOfProblem(error))
      throw error
    }
  }

  const time = new PageTime(context.now)
  const { caller: _caller, session: _session, ifNoneMatch: _tags, now, ...shared } = context
  // A kept page takes what is shared, as its type says: see `keptPage`.
  const recording = {
    ...shared,
    ...createReaders(call),
    render: (key, request) => context.render(key, request, markProvisional),
    time,
    markProvisional,
  } satisfies SharedContext as PageContext
  const result = await page.show(recording)
  if (result instanceof RawResponse || result instanceof Redirect) return { result }
  if (isProvisional || result.more || result.status !== undefined) return { result }
  const view = { ...result, body: new PageBody(result.body) }
  const checks = checksOf([...reads.values()])
  return { kept: { view, checks, madeAt: now, validUntil: time.validUntil } }
}

function keyOf(operation: string, { params, query, accept }: PageInput): string {
  return JSON.stringify([operation, params, query, accept])
}

/** What identifies the answer of an operation: its entity tag, or its content. */
function answerOf({ headers, value }: OperationResult): string | undefined {
  if (headers.etag !== undefined) return headers.etag
  const text = JSON.stringify([value, headers.link])
  return hash('sha256', text, 'base64url')
}

/** A problem that the same request has again; undefined for those that pass. */
function answerOfProblem(error: unknown): string | undefined {
  if (!(error instanceof Problem)) return undefined
  const status = statusOf(error)
  return status < 500 && status !== 429 ? `${error.code}: ${error.message}` : undefined
}

/**
 * The reads that decide whether a page is still right. What a commit has does not change, so of all that was read of the
 * content of one, by its id, the first is enough: it needs the same access, and shows that the commit is still there.
 */
function checksOf(reads: readonly Read[]): Read[] {
  const commits = new Set<unknown>()
  return reads.filter(({ operation, input }) => {
    const rev = input.query?.rev
    const isOfCommit = typeof rev === 'string' && /^[0-9a-f]{40}$/.test(rev)
    if (!isOfCommit || !ofCommits.has(operation)) return true
    // Last commits of entries become known over time.
    const mayGrow = operation === 'getTree' && input.query?.recursive !== true
    if (!mayGrow && commits.has(rev)) return false
    commits.add(rev)
    return true
  })
}

const ofCommits = new Set(['getTree', 'getFile', 'listCommits'])
