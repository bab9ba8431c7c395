import { createHunkReader } from './hunk-reader.ts'
import type { DiffFile, DiffLimit, DiffLimits, DiffStatus, ParsedDiff } from './parsed-diff.ts'
import { createPartScanner, type PartConsumer } from './part-scanner.ts'
import { quotePath } from './quote-path.ts'

export type DiffParser = {
  /** Parses more of the output; false once a limit forbids to read on. */
  push: (chunk: Buffer) => boolean
  /** Whether all files were listed. */
  isListed: () => boolean
  /** Whether only lines of files that are not listed are left, which are counted. */
  isShown: () => boolean
  /** The diff, as far as it was parsed. `limit` is the one that ended the output, if it is not whole. */
  end: (limit?: DiffLimit) => ParsedDiff
}

const nul = 0
const lineFeed = 10
const rawFieldMaxBytes = 16 * 1024
/** Two quoted paths, with four characters for each byte. */
const headerMaxBytes = 9 * rawFieldMaxBytes

/**
 * Parses the output of `git diff-tree --raw -z --patch`: one row for each file, then their patches in the same order.
 * The lines of a hunk are counted, so nothing in them can be mistaken for a header, and paths are those of the rows.
 */
export function createDiffParser(limits: DiffLimits): DiffParser {
  const files: DiffFile[] = []
  const limitsReached = new Set<DiffLimit>()
  const hunks = createHunkReader(limits, limitsReached)
  let fileCount = 0
  let addedFiles = 0
  let deletedFiles = 0
  let pathBytes = 0
  let scannedBytes = 0
  let isListed = false
  /** The index of the file of the current patch; beyond the last for a file that is not listed. */
  let current = -1

  const raw = createRawReader((file) => {
    fileCount += 1
    if (file?.status === 'added') addedFiles += 1
    if (file?.status === 'deleted') deletedFiles += 1
    pathBytes += (file?.path.length ?? 0) + (file?.oldPath?.length ?? 0)
    const isFull = files.length >= limits.maxFiles || pathBytes > limits.maxPathBytes
    // The listed ones are always the first, so that patches can be matched in order.
    if (file && !isFull && files.length === fileCount - 1) files.push(file)
    else limitsReached.add('files')
  })

  function onRawField(bytes: Buffer, start: number, end: number): void {
    if (start === end) {
      isListed = true
      return
    }
    const isCut = end - start > rawFieldMaxBytes
    raw.push(bytes.toString('latin1', start, isCut ? start + rawFieldMaxBytes : end), isCut)
  }

  function onPatchLine(bytes: Buffer, start: number, end: number): void {
    if (hunks.isOpen()) hunks.addLine(bytes, start, end)
    else if (startsWith(bytes, start, end, '@@ ')) hunks.begin(bytes, start, end)
    else if (startsWith(bytes, start, end, '\\')) hunks.addLine(bytes, start, end)
    else if (startsWith(bytes, start, end, 'diff --git ')) beginPatch(bytes, start, end)
    else if (startsWith(bytes, start, end, 'Binary files ')) hunks.markBinary()
  }

  function beginPatch(bytes: Buffer, start: number, end: number): void {
    const header = bytes.toString('latin1', start, Math.min(end, start + headerMaxBytes))
    const next = findFrom(Math.max(0, current), header)
    if (next !== current) finishUntil(next)
    current = next
    hunks.enter(files[current])
  }

  /** The index of the file with this header. The current one has another patch if its type has changed. */
  function findFrom(from: number, header: string): number {
    for (let index = from; index < files.length; index++) {
      const file = files[index]
      if (!file || headerOf(file) !== header) continue
      if (index > current || file.status === 'type-changed') return index
    }
    if (files.length < fileCount) return files.length
    throw new Error('git diff-tree printed a patch of a file that it did not list')
  }

  function finishUntil(index: number): void {
    for (const file of files.slice(Math.max(0, current), index)) {
      file.additions ??= 0
      file.deletions ??= 0
    }
  }

  const consumer: PartConsumer = {
    delimiter: () => (isListed ? lineFeed : nul),
    maxKept: () => {
      if (!isListed) return rawFieldMaxBytes + 1
      return hunks.isOpen() ? hunks.maxKept() : headerMaxBytes
    },
    onPart: (bytes, start, end) =>
      isListed ? onPatchLine(bytes, start, end) : onRawField(bytes, start, end),
  }
  const scanner = createPartScanner(consumer)

  return {
    push(chunk) {
      const left = limits.maxScanBytes - scannedBytes
      scannedBytes += chunk.length
      scanner.push(left < chunk.length ? chunk.subarray(0, left) : chunk)
      return scannedBytes <= limits.maxScanBytes
    },

    isListed: () => isListed,
    isShown: () => files.length < fileCount && current === files.length,

    end(limit) {
      const ended = scannedBytes > limits.maxScanBytes ? 'scan' : limit
      if (ended === undefined) {
        if (!scanner.isBetweenParts() || hunks.isOpen() || (fileCount > 0 && !isListed))
          throw new Error('the output of git diff-tree is incomplete')
        finishUntil(files.length)
      } else {
        limitsReached.add(ended)
        // The file whose patch is incomplete has no counts.
        for (const file of files.slice(Math.max(0, current))) {
          file.additions = undefined
          file.deletions = undefined
          file.truncated = ended
        }
      }
      const isComplete = ended === undefined
      const { additions, deletions } = hunks.totals()
      return {
        files,
        fileCount: isComplete || isListed ? fileCount : null,
        addedFiles,
        deletedFiles,
        additions: isComplete ? additions : null,
        deletions: isComplete ? deletions : null,
        limitsReached: [...limitsReached],
      }
    },
  }
}

function headerOf({ path, oldPath = path }: DiffFile): string {
  return `diff --git ${quotePath(`a/${oldPath}`)} ${quotePath(`b/${path}`)}`
}

function startsWith(bytes: Buffer, start: number, end: number, text: string): boolean {
  if (end - start < text.length) return false
  for (let index = 0; index < text.length; index++)
    if (bytes[start + index] !== text.charCodeAt(index)) return false
  return true
}

const statuses: Record<string, DiffStatus> = {
  A: 'added',
  D: 'deleted',
  M: 'modified',
  R: 'renamed',
  C: 'copied',
  T: 'type-changed',
}

/**
 * Reads the fields of `git diff-tree --raw -z`: `:mode mode id id status`, and one path or two. `onRow` gets each file;
 * undefined for one with a path that was too long to keep.
 */
function createRawReader(onRow: (file: DiffFile | undefined) => void): {
  push: (field: string, isCut: boolean) => void
} {
  let header: string | undefined
  let oldPath: string | undefined
  let isDropped = false

  return {
    push(field, isCut) {
      if (header === undefined) {
        header = field
        oldPath = undefined
        isDropped = false
        return
      }
      isDropped ||= isCut
      if (/[RC]\d*$/.test(header) && oldPath === undefined) {
        oldPath = field
        return
      }
      const row = isDropped ? undefined : toFile(header, field, oldPath)
      header = undefined
      onRow(row)
    },
  }
}

function toFile(header: string, path: string, oldPath: string | undefined): DiffFile {
  const [, oldMode = '', newMode = '', oldId = '', newId = '', status = '', score = ''] =
    /^:(\d+) (\d+) ([0-9a-f]+) ([0-9a-f]+) ([A-Z])(\d*)$/.exec(header) ?? []
  if (status === '') throw new Error('git diff-tree printed a row of another format')
  return {
    path,
    oldPath,
    status: statuses[status] ?? 'unknown',
    oldMode,
    newMode,
    oldId,
    newId,
    similarity: score === '' ? undefined : Number(score),
    isBinary: false,
    additions: undefined,
    deletions: undefined,
    hunks: [],
    truncated: undefined,
  }
}
