import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { isObjectId } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import type { StampOf } from '#browse/repository-stamps.ts'
import { statusOf } from '#http/problem-response.ts'
import type { OperationResult } from '#http/route.ts'
import {
  type CachedPage,
  type PageContext,
  RawResponse,
  Redirect,
  type SharedContext,
  type View,
} from '../page.ts'
import { PageTime } from '../page-time.ts'
import { createReaders, type PageCall, type PageInput } from './page-context.ts'
import { PageBody } from './responses.ts'

/** A page whose body may be cached. */
export type CachedView = Omit<View, 'body'> & { body: PageBody }

/** Identifies the result of an operation: its entity tag, a hash of its content, or its problem; or whether it is allowed. */
type Validator = { kind: 'etag' | 'hash' | 'problem' | 'right'; value: string }

/** A call of an operation for a page, or a question whether its caller may perform one, and the validator of its result. */
type Read = {
  operation: string
  input: PageInput
  key: string
  validator: Validator
  /** Whether it was of a file in Git LFS, whose object may be uploaded or deleted. */
  isOfLfs: boolean
}

/** A page in the cache: it is valid as long as the results of its reads are the same, for a time. */
type Variant = {
  view: CachedView
  checks: Read[]
  createdAt: number
  validUntil: number
  /** The readers for whom the reads were made or repeated while the repository had a stamp. */
  seen: { stamp: string | undefined; readers: Set<string> }
}

// A page has several where its readers have different rights.
const maxVariants = 4
// A few large pages should not displace all others.
const maxShare = 0.25
const fixedBytes = 1000
const maxReaders = 50
const readerBytes = 100

/**
 * Caches pages by their address and by what they read, never by their reader. The reads of a cached page are repeated before
 * it is shown, with the rights of the caller: conditional requests only find out whether the results are still the same, which
 * takes no reading of objects. So access is checked, and nothing is shown that a new page would not show. They are not repeated
 * for a reader for whom they were before, when nothing in the database and in the repository's refs has changed since.
 */
export function createPageCache({ maxBytes, stampOf }: { maxBytes: number; stampOf: StampOf }) {
  const pages = new LRUCache<string, Variant[]>({
    maxSize: Math.max(1, maxBytes),
    maxEntrySize: Math.max(1, Math.floor(maxBytes * maxShare)),
    sizeCalculation: (variants, key) => key.length + sum(variants.map(sizeOf)),
  })

  return async (
    page: CachedPage,
    context: PageContext,
  ): Promise<CachedView | View | RawResponse | Redirect> => {
    const key = [context.baseUrl, context.isLoggedIn, context.url].join('\n')
    const variants = (pages.get(key) ?? []).filter((one) => isValidAt(one, context.time.at))
    const reader = readerOf(context)
    // Before all reads, so that a change during one of them has another stamp.
    const stamp = await stampOf(context.caller, context.params.name ?? '')
    const unchanged = variants.find(({ seen }) => seen.stamp === stamp && seen.readers.has(reader))
    if (unchanged && stamp !== undefined) return unchanged.view
    const revalidate = createRevalidation(context, variants)
    for (const variant of variants)
      if (await isCurrent(variant, revalidate)) {
        noteSeen(variant, reader, stamp)
        return variant.view
      }
    const created = await create(page, context)
    if (!('variant' in created)) return created.result
    const { variant } = created
    noteSeen(variant, reader, stamp)
    const others = (pages.get(key) ?? []).filter(
      (one) => isValidAt(one, context.time.at) && one.view.body.tag !== variant.view.body.tag,
    )
    pages.set(key, [variant, ...others].slice(0, maxVariants))
    return variant.view
  }
}

/** Those with the same session, or without one from the same address, have the same rights while the database is the same. */
function readerOf({ session, caller }: PageContext): string {
  return session?.id ?? `anonymous ${caller.origin?.address}`
}

function noteSeen(variant: Variant, reader: string, stamp: string | undefined): void {
  const { seen } = variant
  if (seen.stamp !== stamp || seen.readers.size >= maxReaders)
    variant.seen = { stamp, readers: new Set() }
  variant.seen.readers.add(reader)
}

function isValidAt({ createdAt, validUntil }: Variant, now: number): boolean {
  return createdAt <= now && now < validUntil
}

/** Compressed, a body takes less than as much again. */
function sizeOf({ view, checks }: Variant): number {
  const texts = checks.map(({ key, validator }) => 2 * key.length + validator.value.length)
  return fixedBytes + maxReaders * readerBytes + 2 * view.body.bytes.length + sum(texts)
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0)
}

type Revalidate = (read: Read) => Promise<Validator | undefined>

async function isCurrent({ checks }: Variant, revalidate: Revalidate): Promise<boolean> {
  const validators = await Promise.all(checks.map(revalidate))
  return checks.every(({ validator }, index) => isSame(validator, validators[index]))
}

function isSame(one: Validator, other: Validator | undefined): boolean {
  return one.kind === other?.kind && one.value === other.value
}

/** Repeats the reads of some variants, each once. */
function createRevalidation({ call, may }: PageContext, variants: readonly Variant[]): Revalidate {
  const etags = new Map<string, Set<string>>()
  for (const { key, validator } of variants.flatMap(({ checks }) => checks))
    if (validator.kind === 'etag')
      etags.set(key, (etags.get(key) ?? new Set()).add(validator.value))
  const repeated = new Map<string, Promise<Validator | undefined>>()

  async function repeat(read: Read): Promise<Validator | undefined> {
    const { operation, input, key, validator } = read
    if (validator.kind === 'right') return rightValidator(await may(operation, input.params))
    const known = etags.get(key)
    try {
      const ifNoneMatch = known && [...known].join(', ')
      return validatorOf(await call(operation, { ...input, ...(ifNoneMatch && { ifNoneMatch }) }))
    } catch (error) {
      return problemValidator(error)
    }
  }

  return (read) => {
    const validator = repeated.get(read.key) ?? repeat(read)
    repeated.set(read.key, validator)
    return validator
  }
}

type Created = { variant: Variant } | { result: View | RawResponse | Redirect }

/** Creates a page, and records what it reads. */
async function create(page: CachedPage, context: PageContext): Promise<Created> {
  const reads = new Map<string, Read>()
  let isProvisional = false
  const markProvisional = () => {
    isProvisional = true
  }

  const call: PageCall = async (operation, input = {}) => {
    function record(validator: Validator | undefined, value?: unknown): void {
      const key = keyOf(operation, input)
      const before = reads.get(key)
      // Something has changed meanwhile.
      if (!validator || (before && !isSame(before.validator, validator))) markProvisional()
      else reads.set(key, { operation, input, key, validator, isOfLfs: isOfLfs(value) })
    }
    try {
      const result = await context.call(operation, input)
      record(validatorOf(result), result.value)
      return result
    } catch (error) {
      record(problemValidator(error))
      throw error
    }
  }

  const { caller, session, problem, fields, ifNoneMatch, requestId, ...shared } = context
  const time = new PageTime(context.time.at)
  const recording: SharedContext = {
    ...shared,
    ...createReaders(call),
    async may(operation, params) {
      const isAllowed = await context.may(operation, params)
      const input = { ...(params && { params }) }
      const key = `may ${keyOf(operation, input)}`
      const validator = rightValidator(isAllowed)
      reads.set(key, { operation, input, key, validator, isOfLfs: false })
      return isAllowed
    },
    render: (key, request) => context.render(key, request, markProvisional),
    time,
    markProvisional,
  }
  const result = await page.show(recording)
  if (result instanceof RawResponse || result instanceof Redirect) return { result }
  if (isProvisional || result.more || result.status !== undefined) return { result }
  const view = { ...result, body: new PageBody(result.body) }
  const checks = checksOf([...reads.values()])
  const seen = { stamp: undefined, readers: new Set<string>() }
  return { variant: { view, checks, createdAt: time.at, validUntil: time.validUntil, seen } }
}

function keyOf(operation: string, { params, query, accept }: PageInput): string {
  return JSON.stringify([operation, params, query, accept])
}

function validatorOf({ headers, value }: OperationResult): Validator {
  if (headers.etag !== undefined) return { kind: 'etag', value: headers.etag }
  const text = JSON.stringify([value, headers.link])
  return { kind: 'hash', value: hash('sha256', text, 'base64url') }
}

function rightValidator(isAllowed: boolean): Validator {
  return { kind: 'right', value: String(isAllowed) }
}

/** The validator of a problem that the same request has again; undefined for one that may pass. */
function problemValidator(error: unknown): Validator | undefined {
  if (!(error instanceof Problem)) return undefined
  const status = statusOf(error)
  if (status >= 500 || status === 429) return undefined
  return { kind: 'problem', value: `${error.code}: ${error.message}` }
}

/**
 * The reads that decide whether a page is still valid. What a commit has does not change, so of all that was read of the
 * content of one, by its id, the first is enough: it needs the same access, and shows that the commit is still there.
 */
function checksOf(reads: readonly Read[]): Read[] {
  const commits = new Set<unknown>()
  return reads.filter(({ operation, input, isOfLfs }) => {
    const rev = input.query?.rev
    const isOfCommit = typeof rev === 'string' && isObjectId(rev)
    if (!isOfCommit || !ofCommits.has(operation) || isOfLfs) return true
    // Last commits of entries become known over time.
    const mayGrow = operation === 'getTree' && input.query?.recursive !== true
    if (!mayGrow && commits.has(rev)) return false
    commits.add(rev)
    return true
  })
}

function isOfLfs(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'lfs' in value && value.lfs !== null
}

const ofCommits = new Set(['getTree', 'getFile', 'listCommits'])
