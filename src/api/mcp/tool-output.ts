import { Readable } from 'node:stream'
import { type Problem, problems } from '#base/problem.ts'
import { statusOf } from '#http/problem-response.ts'
import type { OperationResult } from '#http/route.ts'

/** The result of a tool. */
export type ToolResult = { content: { type: 'text'; text: string }[]; isError?: boolean }

// A result goes into the context of a model, about four characters a token.
const maxCharacters = 40_000
const maxLogBytes = 30_000
const stringLimits = [8000, 2000, 500, 100]

/**
 * Converts the result of an operation to the result of a tool, within limits; notes name what is omitted, and how to
 * get it.
 */
export async function toToolResult(
  { value, headers }: OperationResult,
  query: URLSearchParams,
): Promise<ToolResult> {
  if (value instanceof Readable) return toTexts(await toLogTexts(value, query.get('offset')))
  if (value === undefined) return toTexts(['Done.'])
  if (Array.isArray(value)) return toTexts(toListTexts(value, headers.link))
  return toTexts([shorten(value, maxCharacters)])
}

/** Converts a problem: its code, which programs can match on, and a sentence that says what to do. */
export function toToolError(problem: Problem): ToolResult {
  const { code, message: detail, errors, retryAfterSeconds, members } = problem
  const { title } = problems[code]
  const status = statusOf(problem)
  const shown = { code, title, status, detail, errors, retryAfterSeconds, ...members }
  return { ...toTexts([shorten(shown, maxCharacters)]), isError: true }
}

function toTexts(texts: string[]): ToolResult {
  return { content: texts.map((text) => ({ type: 'text', text })) }
}

function toListTexts(items: unknown[], link: string | undefined): string[] {
  const texts: string[] = []
  let length = 0
  for (const item of items) {
    const text = shorten(item, maxCharacters / 4)
    length += text.length + 1
    if (length > maxCharacters) break
    texts.push(text)
  }
  const list = `[${texts.join(',\n')}]`
  if (texts.length < items.length) {
    const note = `Only ${texts.length} of the ${items.length} on this page are shown: call again with a limit of ${texts.length} or less.`
    return [list, note]
  }
  const next = link === undefined ? undefined : nextPage(link)
  return next === undefined ? [list] : [list, `For the next page, call again with ${next}.`]
}

// The parameters of the next page, from a `Link` header of our own.
function nextPage(link: string): string | undefined {
  const [, query] = /^<[^>?]*\?([^>]*)>/.exec(link) ?? []
  const { cursor, after } = Object.fromEntries(new URLSearchParams(query))
  if (cursor !== undefined) return `cursor ${JSON.stringify(cursor)}`
  return after === undefined ? undefined : `after ${JSON.stringify(after)}`
}

/** Serializes a value to JSON of at most `limit` characters: of its longest texts, only the ends are kept. */
export function shorten(value: unknown, limit: number): string {
  const json = JSON.stringify(value)
  if (json.length <= limit) return json
  for (const maxLength of stringLimits) {
    const text = JSON.stringify(value, (_, part) =>
      typeof part === 'string' ? endOf(part, maxLength) : part,
    )
    if (text.length <= limit) return text
  }
  // The result is no longer valid JSON.
  return `${json.slice(0, limit)}… (${json.length - limit} more characters)`.toWellFormed()
}

function endOf(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text
  return `(${text.length - maxLength} characters omitted)…${text.slice(-maxLength)}`.toWellFormed()
}

async function toLogTexts(log: Readable, offset: string | null): Promise<string[]> {
  if (offset === null) {
    const { text, omitted } = await readEnd(log)
    if (omitted === 0) return [text]
    return [text, `The first ${omitted} bytes are omitted: call again with offset 0 for them.`]
  }
  const { text, isCut, bytes } = await readStart(log)
  if (!isCut) return [text]
  return [text, `The log continues: call again with offset ${Number(offset) + bytes}.`]
}

async function readEnd(log: Readable): Promise<{ text: string; omitted: number }> {
  let end: Buffer = Buffer.alloc(0)
  let omitted = 0
  for await (const chunk of log) {
    const joined = Buffer.concat([end, toBuffer(chunk)])
    const start = startOfCharacter(joined, Math.max(0, joined.length - maxLogBytes))
    omitted += start
    end = joined.subarray(start)
  }
  return { text: end.toString(), omitted }
}

async function readStart(log: Readable) {
  let start: Buffer = Buffer.alloc(0)
  for await (const chunk of log) {
    start = Buffer.concat([start, toBuffer(chunk)])
    // Leaving the loop destroys the stream.
    if (start.length > maxLogBytes) break
  }
  const isCut = start.length > maxLogBytes
  const bytes = isCut ? endOfCharacter(start, maxLogBytes) : start.length
  return { text: start.toString('utf8', 0, bytes), isCut, bytes }
}

function toBuffer(chunk: unknown): Buffer {
  return Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk))
}

/** The first position from `at` on where a character of UTF-8 starts. */
function startOfCharacter(bytes: Buffer, at: number): number {
  let position = at
  while (position > 0 && position < bytes.length && isContinuation(bytes[position])) position++
  return position
}

/** The last position up to `at` where a character of UTF-8 starts. */
function endOfCharacter(bytes: Buffer, at: number): number {
  let position = at
  while (position > 0 && isContinuation(bytes[position])) position--
  return position
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80
}
