import { createHash } from 'node:crypto'
import { Ajv } from 'ajv'
import { type Static, Type } from 'typebox'
import { migrations } from '../database/migrations/migrations.ts'

/** A backup that cannot be used, or a folder that is none; the message says why, and what to do. */
export class BackupError extends Error {
  override readonly name = 'BackupError'
}

export const manifestFile = 'manifest.json'
/** Held by whoever works on the folder: an SQLite file, empty, that the operating system locks. */
export const lockFile = 'svc-backup.lock'
export const lockFiles = [lockFile, `${lockFile}-journal`]

const format = 1
const noSum = '0'.repeat(64)

const Sum = Type.String({ pattern: '^[0-9a-f]{64}$' })
const Id = Type.String({ pattern: '^[0-9a-hjkmnp-tv-z]{26}$' })
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const closed = { additionalProperties: false }

// Nothing else is ever opened, so no manifest can lead out of its folder.
const filePath = [
  'rows/[0-9a-f]{64}',
  'refs/[0-9a-f]{64}',
  // Of one backup each: what they are called says nothing of what is in them.
  'keys/[0-9a-hjkmnp-tv-z]{26}/(encryption\\.key|ssh_host_ed25519_key|ssh_host_ed25519_key\\.pub)',
  'repositories/[0-9a-hjkmnp-tv-z]{26}/pack/pack-[0-9a-f]{40}\\.(pack|idx)',
  'repositories/[0-9a-hjkmnp-tv-z]{26}/[0-9a-f]{2}/[0-9a-f]{38}',
].join('|')

const BackupFile = Type.Object(
  { path: Type.String({ pattern: `^(${filePath})$` }), bytes: Count, sha256: Sum },
  closed,
)
export type BackupFile = Static<typeof BackupFile>

const BackedUpRepository = Type.Object(
  {
    id: Id,
    name: Type.String({ maxLength: 255 }),
    // The file in refs/, by its sum; null for a repository whose directory was lost before.
    refs: Type.Union([Sum, Type.Null()]),
  },
  closed,
)
export type BackedUpRepository = Static<typeof BackedUpRepository>

const BackedUpTable = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z][a-z_]{0,62}$' }),
    rows: Count,
    // The files in rows/ that hold them one after the other, by their sums.
    parts: Type.Array(Sum),
  },
  closed,
)
export type BackedUpTable = Static<typeof BackedUpTable>

const Manifest = Type.Object(
  {
    format: Type.Literal(format),
    // Of this very text with zeros in its place.
    sha256: Sum,
    id: Id,
    instanceId: Id,
    svcVersion: Type.String({ maxLength: 100 }),
    schemaVersion: Type.Integer({ minimum: 1 }),
    // The moment that the backup shows, and the one at which all was copied.
    createdAt: Count,
    finishedAt: Count,
    tables: Type.Array(BackedUpTable),
    repositories: Type.Array(BackedUpRepository),
    files: Type.Array(BackupFile),
  },
  closed,
)
export type Manifest = Static<typeof Manifest>

const isManifest = new Ajv({ allErrors: false }).compile<Manifest>(Manifest)

/** A manifest as the text that is kept. */
export function toText(content: Omit<Manifest, 'format' | 'sha256'>): string {
  const text = `${JSON.stringify({ format, sha256: noSum, ...content }, null, 1)}\n`
  return text.replace(noSum, sumOf(Buffer.from(text)))
}

/** Reads a manifest's bytes. Throws a BackupError for what is none, or damaged, or of a newer svc. */
export function readManifest(bytes: Buffer): Manifest {
  const manifest = parse(bytes)
  const known = migrations.length
  if (isNewer(manifest, 'format', format)) throw newer(`format ${manifest.format}`)
  if (isNewer(manifest, 'schemaVersion', known)) throw newer(`schema ${manifest.schemaVersion}`)
  if (!hasItsSum(bytes)) throw damaged('it is not what was written')
  if (!isManifest(manifest)) throw damaged(faultOf(isManifest))
  const fault = contradictionIn(manifest)
  if (fault) throw damaged(fault)
  return manifest
}

export function sumOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function parse(bytes: Buffer): object {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  } catch {
    // Said below.
  }
  throw damaged('it is no JSON object')
}

function isNewer<K extends string>(
  value: object,
  key: K,
  known: number,
): value is Record<K, number> {
  return key in value && Number(Object.entries(value).find(([name]) => name === key)?.[1]) > known
}

function hasItsSum(bytes: Buffer): boolean {
  const label = '"sha256": "'
  const start = bytes.indexOf(label) + label.length
  if (start < label.length || bytes.length < start + noSum.length) return false
  const claimed = bytes.toString('latin1', start, start + noSum.length)
  const blank = Buffer.from(bytes)
  blank.write(noSum, start, 'latin1')
  return claimed === sumOf(blank)
}

// What a schema cannot say. A name that comes twice could be checked in one place and used in another.
function contradictionIn({ tables, repositories, files }: Manifest): string | undefined {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const isNamed = (path: string, sum: string) => byPath.get(path)?.sha256 === sum
  if (byPath.size < files.length) return 'it names a file twice'
  if (new Set(tables.map(({ name }) => name)).size < tables.length) return 'it names a table twice'
  const ids = new Set(repositories.map(({ id }) => id))
  if (ids.size < repositories.length) return 'it names a repository twice'
  for (const sum of tables.flatMap(({ parts }) => parts)) {
    if (!isNamed(`rows/${sum}`, sum)) return `it lacks the file rows/${sum}`
  }
  for (const { refs } of repositories) {
    if (refs !== null && !isNamed(`refs/${refs}`, refs)) return `it lacks the file refs/${refs}`
  }
  const stray = files.find(({ path }) => {
    const [, id] = /^repositories\/(\w+)/.exec(path) ?? []
    return id !== undefined && !ids.has(id)
  })
  return stray && `it names ${stray.path}, but no such repository`
}

function faultOf({ errors }: { errors?: { instancePath: string; message?: string }[] | null }) {
  const [first] = errors ?? []
  return `${first?.instancePath || 'the whole'} ${first?.message ?? 'is not accepted'}`
}

function damaged(why: string): BackupError {
  return new BackupError(
    `${manifestFile} is damaged: ${why}. Use another copy of it, or another folder for a new backup.`,
  )
}

function newer(what: string): BackupError {
  return new BackupError(`The backup is of a newer svc (${what}); use that one.`)
}
