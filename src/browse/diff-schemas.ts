import { type Static, Type } from 'typebox'
import { type DiffFile, type DiffHunk, diffLimits, type ParsedDiff } from '#git/diff/parsed-diff.ts'
import { renameLimit } from '#git/process/commands.ts'
import { named } from '#http/named-schemas.ts'
import { pathProperties, toApiPath } from './api-path.ts'

export const Hunk = Type.Object({
  oldStart: Type.Integer({ description: 'First line in the old file; 0 if there is none' }),
  oldLines: Type.Integer({ description: 'Number of lines in the old file' }),
  newStart: Type.Integer({ description: 'First line in the new file; 0 if there is none' }),
  newLines: Type.Integer({ description: 'Number of lines in the new file' }),
  section: Type.String({ description: 'A line before it, such as the name of the function' }),
  lines: Type.Array(Type.String(), {
    description:
      'Lines, without line feeds: unchanged ones begin with a space, deleted ones with `-`, added ones with `+`; `\\ No newline at end of file` follows a line that ends without one',
  }),
  cutLines: Type.Optional(
    Type.Array(Type.Integer(), { description: 'Indexes of lines that were too long and were cut' }),
  ),
  rawLines: Type.Optional(
    Type.Array(Type.Object({ index: Type.Integer(), base64: Type.String() }), {
      description: 'The bytes of lines that are not UTF-8, by index, with their first character',
    }),
  ),
})

export const ChangedFile = Type.Object({
  ...pathProperties,
  oldPath: Type.Optional(Type.String({ description: 'Path before it was renamed' })),
  oldPathBase64: Type.Optional(
    Type.String({ description: 'The bytes of that path in base64, if it is not UTF-8' }),
  ),
  status: Type.String({
    description:
      '`added`, `deleted`, `modified`, `renamed`, `copied`, or `type-changed`: a file that became a symbolic link or a submodule, or the reverse',
  }),
  oldMode: Type.Union([Type.String(), Type.Null()], {
    description: 'Mode of the old file, as in a tree; null if there is none',
  }),
  newMode: Type.Union([Type.String(), Type.Null()], { description: 'Mode of the new file' }),
  oldId: Type.Union([Type.String(), Type.Null()], {
    description: 'Id of the old blob, or commit of a submodule',
  }),
  newId: Type.Union([Type.String(), Type.Null()], { description: 'Id of the new one' }),
  similarity: Type.Optional(
    Type.Integer({ description: 'Similarity of a renamed file, in percent' }),
  ),
  isBinary: Type.Boolean({
    description: 'Whether it is not compared line by line, since it is binary or very large',
  }),
  additions: Type.Union([Type.Integer(), Type.Null()], {
    description:
      'Number of added lines; null for a binary file, and when they were not all counted',
  }),
  deletions: Type.Union([Type.Integer(), Type.Null()], { description: 'Number of deleted lines' }),
  hunks: Type.Array(Hunk, {
    description: 'What differs; of a file that changed its type, first the deletion of the old one',
  }),
  truncated: Type.Union([Type.String(), Type.Null()], {
    description:
      'The limit that left out or cut lines of this file: `lines` or `bytes` of the file, `line` for the length of a line, `response` for all files together, `scan` or `time` for what was read of the diff. Null if it is complete. Request the file alone, by its path, for larger limits',
  }),
})

export const Diff = named(
  'Diff',
  Type.Object({
    base: Type.Union([Type.String(), Type.Null()], {
      description: 'Id of the commit that it is compared with; null for a commit without parents',
    }),
    fileCount: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Number of changed files; null if they were not all counted',
    }),
    additions: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Number of added lines in all files; null if they were not all counted',
    }),
    deletions: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Number of deleted lines in all files',
    }),
    areRenamesLimited: Type.Boolean({
      description: `Whether renames with changes were not searched, since more than ${renameLimit} files were added or deleted`,
    }),
    limitsReached: Type.Array(Type.String(), {
      description: `The limits that left something out: ${diffLimits.map((name) => `\`${name}\``).join(', ')}; with \`files\`, files are missing from the list`,
    }),
    files: Type.Array(ChangedFile, { description: 'Changed files, by path' }),
  }),
)

export function toDiff(base: string | null, diff: ParsedDiff): Static<typeof Diff> {
  const { files, fileCount, additions, deletions, limitsReached } = diff
  return {
    base,
    fileCount,
    additions,
    deletions,
    // Git's condition, for what was left after the search of equal files.
    areRenamesLimited: diff.addedFiles * diff.deletedFiles > renameLimit ** 2,
    limitsReached,
    files: files.map(toChangedFile),
  }
}

function toChangedFile(file: DiffFile): Static<typeof ChangedFile> {
  const { status, oldMode, newMode, oldId, newId, similarity, isBinary, truncated } = file
  const old = file.oldPath === undefined ? undefined : toApiPath(file.oldPath)
  return {
    ...toApiPath(file.path),
    ...(old && { oldPath: old.path }),
    ...(old?.pathBase64 !== undefined && { oldPathBase64: old.pathBase64 }),
    status,
    oldMode: unlessZero(oldMode),
    newMode: unlessZero(newMode),
    oldId: unlessZero(oldId),
    newId: unlessZero(newId),
    ...(similarity !== undefined && { similarity }),
    isBinary,
    additions: isBinary ? null : (file.additions ?? null),
    deletions: isBinary ? null : (file.deletions ?? null),
    hunks: file.hunks.map(toApiHunk),
    truncated: truncated ?? null,
  }
}

function toApiHunk({ cutLines, rawLines, ...hunk }: DiffHunk): Static<typeof Hunk> {
  const inBase64 = rawLines.map(({ index, bytes }) => ({ index, base64: bytes.toString('base64') }))
  return {
    ...hunk,
    ...(cutLines.length > 0 && { cutLines }),
    ...(inBase64.length > 0 && { rawLines: inBase64 }),
  }
}

function unlessZero(text: string): string | null {
  return /^0+$/.test(text) ? null : text
}
