import type { Static } from 'typebox'
import { printableLine } from '#base/format.ts'
import { quotePath } from '#git/diff/quote-path.ts'
import type { ChangedFile, Diff, Hunk } from './diff-schemas.ts'

type FileBody = Static<typeof ChangedFile>
type HunkBody = Static<typeof Hunk>

/**
 * A patch of a diff, and what is not in it. For people, a file that is not complete is shown as far as it is there. For
 * programs, such as git-apply(1), there are only files that can be applied, with the bytes that they have.
 */
export function toPatch(
  { files, fileCount, limitsReached }: Static<typeof Diff>,
  { forPeople }: { forPeople: boolean },
): { patch: Buffer; omitted: string[] } {
  const omitted: string[] = []
  const parts: Buffer[] = []
  for (const file of files) {
    const reason = reasonToOmit(file)
    if (reason !== undefined) omitted.push(`${file.path}: ${reason}`)
    if (reason === undefined || forPeople) parts.push(...patchesOf(file, forPeople))
  }
  if (limitsReached.includes('files'))
    omitted.push(`${fileCount === null ? 'more' : fileCount - files.length} other files`)
  return { patch: Buffer.concat(parts), omitted }
}

function reasonToOmit({ truncated, isBinary, oldId, newId }: FileBody): string | undefined {
  if (truncated !== null) return `cut by the limit "${truncated}"; --path shows more of a file`
  return isBinary && oldId !== newId ? 'binary' : undefined
}

function patchesOf(file: FileBody, forPeople: boolean): Buffer[] {
  if (file.status !== 'type-changed') return patchOf(file, forPeople)
  const deleted = { newMode: null, newId: null, status: 'deleted' }
  const added = { oldMode: null, oldId: null, status: 'added' }
  const isDeletion = ({ newStart, newLines }: HunkBody) => newStart === 0 && newLines === 0
  const deletions = file.hunks.filter(isDeletion)
  const additions = file.hunks.filter((hunk) => !isDeletion(hunk))
  return [
    ...patchOf({ ...file, ...deleted, hunks: deletions }, forPeople),
    ...patchOf({ ...file, ...added, hunks: additions }, forPeople),
  ]
}

function patchOf(file: FileBody, forPeople: boolean): Buffer[] {
  const { status, oldMode, newMode, oldId, newId, similarity, isBinary, hunks } = file
  const path = rawOf(file.path, file.pathBase64)
  const oldPath = file.oldPath === undefined ? path : rawOf(file.oldPath, file.oldPathBase64)
  const [oldName, newName] = [quotePath(`a/${oldPath}`), quotePath(`b/${path}`)]
  const isMode = oldMode !== null && newMode !== null && oldMode !== newMode
  const [from, to] = [
    oldMode === null ? '/dev/null' : oldName,
    newMode === null ? '/dev/null' : newName,
  ]
  const sameMode = oldMode === newMode ? ` ${newMode}` : ''
  const noId = '0'.repeat((oldId ?? newId ?? '').length)
  const header = [
    `diff --git ${oldName} ${newName}`,
    ...(isMode ? [`old mode ${oldMode}`, `new mode ${newMode}`] : []),
    ...(status === 'added' ? [`new file mode ${newMode}`] : []),
    ...(status === 'deleted' ? [`deleted file mode ${oldMode}`] : []),
    ...(similarity === undefined
      ? []
      : [
          `similarity index ${similarity}%`,
          `${status === 'copied' ? 'copy' : 'rename'} from ${quotePath(oldPath)}`,
          `${status === 'copied' ? 'copy' : 'rename'} to ${quotePath(path)}`,
        ]),
    ...(oldId === newId ? [] : [`index ${oldId ?? noId}..${newId ?? noId}${sameMode}`]),
    ...(isBinary && oldId !== newId ? [`Binary files ${from} and ${to} differ`] : []),
    ...(hunks.length > 0 ? [`--- ${withTab(from)}`, `+++ ${withTab(to)}`] : []),
  ]
  const body = hunks.flatMap((hunk) => linesOf(hunk, forPeople))
  return [...header.map((line) => Buffer.from(`${line}\n`, 'latin1')), ...body]
}

function linesOf({ lines, rawLines = [], ...hunk }: HunkBody, forPeople: boolean): Buffer[] {
  const { oldStart, oldLines, newStart, newLines, section } = hunk
  const ranges = `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`
  const raw = new Map(rawLines.map(({ index, base64 }) => [index, base64]))
  const all = lines.map((line, index) => {
    const base64 = raw.get(index)
    if (forPeople) return Buffer.from(`${printableLine(line)}\n`)
    const bytes = base64 === undefined ? Buffer.from(line) : Buffer.from(base64, 'base64')
    return Buffer.concat([bytes, Buffer.from('\n')])
  })
  const heading = printableLine(section === '' ? ranges : `${ranges} ${section}`)
  return [Buffer.from(`${heading}\n`), ...all]
}

/** Git puts a tab behind a name with a space, so that nothing after it is taken as a time. */
function withTab(name: string): string {
  return name.includes(' ') ? `${name}\t` : name
}

function rawOf(path: string, base64: string | undefined): string {
  const bytes = base64 === undefined ? Buffer.from(path) : Buffer.from(base64, 'base64')
  return bytes.toString('latin1')
}
