/** A diff of two trees. Paths are raw: each character is a byte (latin1). */
export type ParsedDiff = {
  /** In Git's order; the first ones, when there are more than the limits allow. */
  files: DiffFile[]
  /** The number of changed files; null when the output ended before all were listed. */
  fileCount: number | null
  addedFiles: number
  deletedFiles: number
  /** Counts of lines of all files, also of those that are not listed; null when the output was not read to its end. */
  additions: number | null
  deletions: number | null
  /** The limits that left something out. */
  limitsReached: DiffLimit[]
}

export type DiffFile = {
  path: string
  /** Where it was before it was renamed or copied. */
  oldPath: string | undefined
  status: DiffStatus
  /** All zeros for a file that does not exist. */
  oldMode: string
  newMode: string
  oldId: string
  newId: string
  /** Percentage, for renames and copies. */
  similarity: number | undefined
  isBinary: boolean
  /** Undefined when the output ended before the end of this file. Lines of binary files are not counted. */
  additions: number | undefined
  deletions: number | undefined
  /** A change of the type has those that delete the old file, then those that add the new one. */
  hunks: DiffHunk[]
  /** The limit that left out or cut lines of this file. */
  truncated: DiffLimit | undefined
}

export type DiffStatus =
  | 'added'
  | 'deleted'
  | 'modified'
  | 'renamed'
  | 'copied'
  | 'type-changed'
  | 'unknown'

export type DiffHunk = {
  oldStart: number
  oldLines: number
  newStart: number
  newLines: number
  /** The line that Git shows after the numbers, such as the name of the function. */
  section: string
  /** Begin with a space, `+`, `-` or `\`. */
  lines: string[]
  /** Indexes of lines that were cut. */
  cutLines: number[]
  /** Lines that are not UTF-8, by index. */
  rawLines: { index: number; bytes: Buffer }[]
}

/** `line`: of the bytes of a line; `scan`: of the bytes of the whole diff; `time`, `memory`: of the git process. */
export type DiffLimit = (typeof diffLimits)[number]

export const diffLimits = [
  'files',
  'lines',
  'bytes',
  'line',
  'response',
  'scan',
  'time',
  'memory',
] as const

export type DiffLimits = {
  maxFiles: number
  /** Bytes of the paths of all files. */
  maxPathBytes: number
  maxLinesPerFile: number
  maxBytesPerFile: number
  maxLineBytes: number
  /** Bytes of all lines, as JSON. */
  maxBytes: number
  /** Bytes of Git's output that are read. */
  maxScanBytes: number
}
