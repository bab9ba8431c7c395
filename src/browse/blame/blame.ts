import { type Static, Type } from 'typebox'
import { Problem } from '#base/problem.ts'
import { field } from '#base/schema-options.ts'
import { createTimeSlices } from '#base/time-slices.ts'
import type { CommitObject } from '#git/objects/commit-object.ts'
import { type ObjectReader, ObjectTooLargeError } from '#git/objects/object-reader.ts'
import { gitCommands } from '#git/process/commands.ts'
import { toWord } from '#git/process/preforked-process.ts'
import { named } from '#http/named-schemas.ts'
import { invalid, ofQuery } from '#http/validation.ts'
import { pathProperties, type RawPath, toApiPath } from '../api-path.ts'
import type { BrowseParts } from '../browse-parts.ts'
import { signature, toPerson } from '../commit-schemas.ts'
import type { Requester } from '../git-tasks.ts'
import { decodeUpTo, findLines, type LineRange } from '../text-lines.ts'
import { treeMode } from '../trees.ts'
import { type BlameRange, createBlameParser, joinRanges } from './blame-output.ts'

export const maxLines = 10_000
export const maxFileBytes = 16 * 1024 * 1024
const maxTextBytes = 4 * 1024 * 1024
const lineMaxBytes = 10_000
const summaryMaxLength = 500
const submoduleMode = '160000'
/** Git looks for a NUL in as many bytes to recognize a binary file. */
const sniffedBytes = 8000

type BlameRequest = {
  commit: { id: string; tree: string }
  path: RawPath
  start: number
  end: number | undefined
}

/** Finds which commit each line of a file is from. */
export function createBlame({ pool, tasks, trees, commits }: BrowseParts) {
  return async (requester: Requester, request: BlameRequest): Promise<Static<typeof Blame>> => {
    const { commit, path, start, end } = request
    const objects = pool.of(requester.repository.path)
    const entry = await trees.find(objects, commit.tree, path)
    if (entry.mode === treeMode) throw noFile(path, 'a folder')
    if (entry.mode === submoduleMode) throw noFile(path, 'a submodule')
    const content = await readFile(objects, { id: entry.id, path })
    const wanted = Math.min(maxLines, (end ?? Number.POSITIVE_INFINITY) - start + 1)
    const lines = await findLines(content, { start, maxLines: wanted, maxBytes: maxTextBytes })
    if (start > Math.max(1, lines.totalLines)) throw pastEnd(path, lines.totalLines)

    const found: BlameRange[] = []
    const known = new Map<string, Promise<CommitObject | undefined>>()
    const parse = createBlameParser((range) => {
      found.push(range)
      if (known.has(range.commit)) return
      // While git goes on.
      const reading = Promise.resolve(commits(objects, range.commit))
      reading.catch(() => {})
      known.set(range.commit, reading)
    })
    const last = start + lines.starts.length - 1
    if (lines.starts.length > 0) {
      const { path: directory } = requester.repository
      await tasks.run(requester, {
        command: gitCommands.blame(directory, `${start},${last}`, commit.id, toWord(path)),
        async read(output) {
          for await (const chunk of output) parse(chunk)
        },
      })
    }
    const slices = createTimeSlices()
    const joined = joinRanges(found)
    const ids = [...new Set(joined.map((range) => range.commit))]
    const ranges: Static<typeof BlamedLines>[] = []
    for (const range of joined) {
      await slices.rest()
      ranges.push(toRange(range, { content, lines, start }))
    }
    return {
      commit: commit.id,
      ...toApiPath(path),
      id: entry.id,
      totalLines: lines.totalLines,
      ...(last < lines.totalLines && (end === undefined || last < end) && { next: last + 1 }),
      ranges,
      commits: await Promise.all(ids.map(async (id) => toBlameCommit(id, await known.get(id)))),
    }
  }
}

async function readFile(
  objects: ObjectReader,
  { id, path }: { id: string; path: RawPath },
): Promise<Buffer> {
  const found = await objects.read(id, maxFileBytes).catch((error) => {
    if (!(error instanceof ObjectTooLargeError)) throw error
    const shown = toApiPath(path).path
    throw new Problem(
      'git_limit_exceeded',
      `"${shown}" is larger than ${maxFileBytes / 1024 / 1024} MiB, the limit of this request.`,
    )
  })
  const content = found?.content ?? Buffer.alloc(0)
  if (!content.subarray(0, sniffedBytes).includes(0)) return content
  throw new Problem('file_binary', `"${toApiPath(path).path}" is a binary file: it has no lines.`)
}

type Text = { content: Buffer; lines: LineRange; start: number }

function toRange(range: BlameRange, text: Text): Static<typeof BlamedLines> {
  const { start, count, commit, originalStart, previous } = range
  const original = toApiPath(range.originalPath)
  const { starts, end } = text.lines
  const cutLines: number[] = []
  const shown = Array.from({ length: count }, (_, index) => {
    const place = start + index - text.start
    const bytes = text.content.subarray(starts[place] ?? end, starts[place + 1] ?? end)
    const line = bytes.at(-1) === 0x0a ? bytes.subarray(0, -1) : bytes
    const { text: decoded, isCut } = decodeUpTo(line, lineMaxBytes)
    if (isCut) cutLines.push(start + index)
    return decoded
  })
  return {
    start,
    count,
    commit,
    originalPath: original.path,
    ...(original.pathBase64 !== undefined && { originalPathBase64: original.pathBase64 }),
    originalStart,
    ...(previous && { previous: { commit: previous.commit, ...toApiPath(previous.path) } }),
    lines: shown,
    ...(cutLines.length > 0 && { cutLines }),
  }
}

function toBlameCommit(id: string, commit: CommitObject | undefined): Static<typeof BlameCommit> {
  if (!commit) return { id, summary: '' }
  const { author, committer, message } = commit
  const [summary = ''] = message.trimStart().split('\n', 1)
  return {
    id,
    summary: summary.slice(0, summaryMaxLength).toWellFormed(),
    author: toPerson(author),
    committer: toPerson(committer),
  }
}

function noFile(path: RawPath, kind: string): Problem {
  return new Problem('path_not_found', `"${toApiPath(path).path}" is ${kind}, not a file.`)
}

function pastEnd(path: RawPath, totalLines: number): Problem {
  const detail = `is after the end: "${toApiPath(path).path}" has ${totalLines} lines.`
  return invalid([ofQuery('start', detail)])
}

const BlamedLines = Type.Object({
  start: field.integer('Number of the first line, from 1'),
  count: field.integer('Number of lines'),
  commit: field.text('Id of the commit that they are from'),
  originalPath: field.text('Path of the file in that commit'),
  originalPathBase64: Type.Optional(
    field.text('The bytes of that path in base64, if it is not UTF-8'),
  ),
  originalStart: field.integer('Number of the first line in that commit'),
  previous: Type.Optional(
    Type.Object(
      { commit: field.text('Id of the commit'), ...pathProperties },
      { description: 'The file before that commit, to look further back; missing if it was new' },
    ),
  ),
  lines: field.texts('The lines, without line feeds; bytes that are not UTF-8 are U+FFFD'),
  cutLines: Type.Optional(
    Type.Array(Type.Integer(), {
      description: `Numbers of lines that are longer than ${lineMaxBytes.toLocaleString('en')} bytes, of which only the start is here`,
    }),
  ),
})

const BlameCommit = Type.Object({
  id: field.text('Id of the commit'),
  summary: field.text('First line of its message'),
  author: Type.Optional(signature('Who wrote the change; missing if the commit is unreadable')),
  committer: Type.Optional(signature('Who made the commit; missing if the commit is unreadable')),
})

export const Blame = named(
  'Blame',
  Type.Object({
    commit: field.text('Id of the commit'),
    ...pathProperties,
    id: field.text('Id of the file'),
    totalLines: field.integer('Number of lines of the file'),
    next: Type.Optional(
      field.integer('The next line, as `start` of a further request; missing at the end'),
    ),
    ranges: Type.Array(BlamedLines, { description: 'Lines of one commit each, in order' }),
    commits: Type.Array(BlameCommit, { description: 'The commits of all ranges, each once' }),
  }),
)
