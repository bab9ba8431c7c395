import type { DiffFile, DiffStatus } from './parsed-diff.ts'

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
export function createRawReader(onRow: (file: DiffFile | undefined) => void): {
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
