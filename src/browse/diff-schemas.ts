import { type Static, Type } from 'typebox'
import { field } from '#base/schema-options.ts'
import { type DiffFile, type DiffHunk, diffLimits, type ParsedDiff } from '#git/diff/parsed-diff.ts'
import { renameLimit } from '#git/process/commands.ts'
import { named } from '#http/named-schemas.ts'
import { pathProperties, toApiPath } from './api-path.ts'

export const Hunk = Type.Object({
  oldStart: field.integer('First line in the old file; 0 if there is none'),
  oldLines: field.integer('Number of lines in the old file'),
  newStart: field.integer('First line in the new file; 0 if there is none'),
  newLines: field.integer('Number of lines in the new file'),
  section: field.text('A line before it, such as the name of the function'),
  lines: field.texts(
    'Lines, without line feeds: unchanged ones begin with a space, deleted ones with `-`, added ones with `+`; `\\ No newline at end of file` follows a line that ends without one',
  ),
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
  oldPath: Type.Optional(field.text('Path before it was renamed')),
  oldPathBase64: Type.Optional(field.text('The bytes of that path in base64, if it is not UTF-8')),
  status: field.text(
    '`added`, `deleted`, `modified`, `renamed`, `copied`, or `type-changed`: a file that became a symbolic link or a submodule, or the reverse',
  ),
  oldMode: field.orNull(Type.String(), 'Mode of the old file, as in a tree; null if there is none'),
  newMode: field.orNull(Type.String(), 'Mode of the new file'),
  oldId: field.orNull(Type.String(), 'Id of the old blob, or commit of a submodule'),
  newId: field.orNull(Type.String(), 'Id of the new one'),
  similarity: Type.Optional(field.integer('Similarity of a renamed file, in percent')),
  isBinary: field.boolean(
    'Whether it is not compared line by line, since it is binary or very large',
  ),
  additions: field.orNull(
    Type.Integer(),
    'Number of added lines; null for a binary file, and when they were not all counted',
  ),
  deletions: field.orNull(Type.Integer(), 'Number of deleted lines'),
  hunks: Type.Array(Hunk, {
    description: 'What differs; of a file that changed its type, first the deletion of the old one',
  }),
  truncated: field.orNull(
    Type.String(),
    'The limit that left out or cut lines of this file: `lines` or `bytes` of the file, `line` for the length of a line, `response` for all files together, `scan` or `time` for what was read of the diff. Null if it is complete. Request the file alone, by its path, for larger limits',
  ),
})

export const Diff = named(
  'Diff',
  Type.Object({
    base: field.orNull(
      Type.String(),
      'Id of the commit that it is compared with; null for a commit without parents',
    ),
    fileCount: field.orNull(
      Type.Integer(),
      'Number of changed files; null if they were not all counted',
    ),
    additions: field.orNull(
      Type.Integer(),
      'Number of added lines in all files; null if they were not all counted',
    ),
    deletions: field.orNull(Type.Integer(), 'Number of deleted lines in all files'),
    areRenamesLimited: field.boolean(
      `Whether renames with changes were not searched, since more than ${renameLimit} files were added or deleted`,
    ),
    limitsReached: field.texts(
      `The limits that left something out: ${diffLimits.map((name) => `\`${name}\``).join(', ')}; with \`files\`, files are missing from the list`,
    ),
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
