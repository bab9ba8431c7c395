import { objectFormats } from '#base/object-id.ts'
import { createDiffParser, type DiffParser } from '#git/diff/diff-parser.ts'
import type { DiffLimits, ParsedDiff } from '#git/diff/parsed-diff.ts'
import { emptyTreeId } from '#git/objects/new-objects.ts'
import { gitCommands } from '#git/process/commands.ts'
import { toWord } from '#git/process/preforked-process.ts'
import type { RawPath } from '../api-path.ts'
import { type GitTasks, isMemoryLimit, type Requester, type Task } from '../git-tasks.ts'

/** The id of the tree without entries, which git knows without storing it. */
const emptyTrees = new Set(objectFormats.map(emptyTreeId))

type Range = {
  /** Ids of two commits, or of the empty tree and a tree. */
  before: string
  after: string
  /** The file or folder that is wanted; empty for all. */
  path: RawPath
}

const mib = 1024 * 1024

const limitsOfAll: DiffLimits = {
  maxFiles: 1000,
  maxPathBytes: mib / 4,
  maxLinesPerFile: 2000,
  maxBytesPerFile: mib / 8,
  maxLineBytes: 2000,
  maxBytes: mib,
  maxScanBytes: 64 * mib,
}
/** A file or folder that is requested alone. */
const limitsOfPath: DiffLimits = {
  ...limitsOfAll,
  maxLinesPerFile: 50_000,
  maxBytesPerFile: 4 * mib,
  maxLineBytes: 64 * 1024,
  maxBytes: 4 * mib,
}
const limitsOfList: DiffLimits = {
  ...limitsOfAll,
  maxFiles: 200_000,
  maxPathBytes: 32 * mib,
}

// Git reads a large file into memory, even one of which it shows only that it is binary.
const memoryMaxBytes = 512 * mib
/** After so long, the lines of files that are not in the list are no longer counted. */
const countingMs = 500

/**
 * Compares two trees. What exceeds a limit is left out, and the limit is in the result. Throws as GitTasks do, also when
 * git takes too long to list the files.
 */
export async function readDiff(
  tasks: GitTasks,
  requester: Requester,
  range: Range,
): Promise<ParsedDiff> {
  const { path } = range
  if (path === '') return run(tasks, requester, range, { paths: [], limits: limitsOfAll })
  const alone = await run(tasks, requester, range, { paths: [path], limits: limitsOfPath })
  const [file] = alone.files
  if (!file || file.path !== path || (file.status !== 'added' && file.status !== 'deleted'))
    return alone
  // It may have been renamed, which shows only among all files.
  const all = await run(tasks, requester, range, { paths: [], limits: limitsOfList, isList: true })
  const isRenamed = (one: { path: string; oldPath: string | undefined }) =>
    one.oldPath !== undefined && (one.path === path || one.oldPath === path)
  const renamed = all.files.find(isRenamed)
  if (renamed?.oldPath === undefined) return alone
  const paths = [renamed.oldPath, renamed.path]
  return run(tasks, requester, range, { paths, limits: limitsOfPath })
}

type Options = {
  paths: RawPath[]
  limits: DiffLimits
  /** Whether only the list of files is wanted. */
  isList?: boolean
}

async function run(
  tasks: GitTasks,
  requester: Requester,
  range: Range,
  options: Options,
): Promise<ParsedDiff> {
  // The parser of the last attempt: a worn-out process is replaced.
  let parser: DiffParser | undefined
  const begin = () => {
    parser = createDiffParser(options.limits)
    return parser
  }
  try {
    return await tasks.run(requester, toTask(requester, range, options, begin))
  } catch (error) {
    // The files listed before git reached its memory limit are still of use.
    if (isMemoryLimit(error) && parser?.isListed()) return parser.end('memory')
    throw error
  }
}

function toTask(
  requester: Requester,
  range: Range,
  { paths, isList = false }: Options,
  begin: () => DiffParser,
): Task<ParsedDiff> {
  const directory = requester.repository.path
  const { before, after } = range
  const isOfAll = paths.length === 0
  return {
    command: isOfAll
      ? gitCommands.diffEach(directory)
      : gitCommands.diffTrees(directory, before, after, ...paths.map(toWord)),
    isReusable: isOfAll,
    memoryMaxBytes,
    input: isOfAll ? inputOf(range) : '',
    async read(output) {
      const startedAt = performance.now()
      const parser = begin()
      const diff = isOfAll ? withoutStart(output, startOf(range)) : output
      try {
        for await (const chunk of diff) {
          if (!parser.push(chunk) || (isList && parser.isListed())) return parser.end('scan')
          if (parser.isShown() && performance.now() - startedAt > countingMs)
            return parser.end('time')
        }
        return parser.end()
      } catch (error) {
        // Lines that were read in time are of use once all files are listed.
        if (isTimeout(error) && !requester.signal.aborted && parser.isListed())
          return parser.end('time')
        throw error
      }
    },
  }
}

// Both ids, always: a commit alone would be compared with the parents that an earlier line of input gave it.
const inputOf = ({ before, after }: Range) =>
  emptyTrees.has(before) ? `${before} ${after}\n` : `${after} ${before}\n`

const startOf = ({ before, after }: Range) =>
  emptyTrees.has(before) ? `${before} ${after}\n` : `${after}\0`

/** Output without its start. Throws when it is another one: git prints nothing when it cannot read an object. */
async function* withoutStart(
  output: AsyncIterable<Buffer>,
  start: string,
): AsyncGenerator<Buffer, void, undefined> {
  let first: Buffer | undefined = Buffer.alloc(0)
  for await (const chunk of output) {
    if (!first) {
      yield chunk
      continue
    }
    first = Buffer.concat([first, chunk])
    if (first.length < start.length) continue
    if (first.toString('latin1', 0, start.length) !== start) break
    yield first.subarray(start.length)
    first = undefined
  }
  if (first) throw new Error('git diff-tree cannot read an object')
}

function isTimeout(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'TimeoutError'
}
