import { createHash } from 'node:crypto'
import { Ajv, type ValidateFunction } from 'ajv'
import { type Static, Type } from 'typebox'
import { migrations } from '#database/migrations.ts'

/** An unusable backup or folder; the message says why and how to fix it. */
export class BackupError extends Error {
  override readonly name = 'BackupError'
}

export const manifestFile = 'manifest.json'
/** Locked by the process that works on the folder: an empty SQLite file. */
export const lockFile = 'svc-backup.lock'
export const lockFiles = [lockFile, `${lockFile}-journal`]

const format = 1
const noSum = '0'.repeat(64)

const Sum = Type.String({ pattern: '^[0-9a-f]{64}$' })
const Id = Type.String({ pattern: '^[0-9a-hjkmnp-tv-z]{26}$' })
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const closed = { additionalProperties: false }

// Only these paths are opened, so no manifest can lead out of its folder.
const filePath = [
  'rows/[0-9a-f]{64}',
  'refs/[0-9a-f]{64}',
  // In a folder per backup, because these names do not identify content.
  'keys/[0-9a-hjkmnp-tv-z]{26}/(encryption\\.key|ssh_host_ed25519_key|ssh_host_ed25519_key\\.pub)',
  'repositories/[0-9a-hjkmnp-tv-z]{26}/lfs/[0-9a-f]{2}/[0-9a-f]{64}',
  'repositories/[0-9a-hjkmnp-tv-z]{26}/pack/pack-[0-9a-f]{40,64}\\.(pack|idx)',
  'repositories/[0-9a-hjkmnp-tv-z]{26}/[0-9a-f]{2}/[0-9a-f]{38,62}',
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
    // SHA-256 of the file in refs/; null for a repository whose directory was already lost.
    refs: Type.Union([Sum, Type.Null()]),
    // Absent for SHA-1, and for an empty repository that has no object format yet.
    objectFormat: Type.Optional(Type.Literal('sha256')),
  },
  closed,
)
export type BackedUpRepository = Static<typeof BackedUpRepository>

const BackedUpTable = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z][a-z_]{0,62}$' }),
    rows: Count,
    // SHA-256 of each file in rows/, in order.
    parts: Type.Array(Sum),
  },
  closed,
)
export type BackedUpTable = Static<typeof BackedUpTable>

const Manifest = Type.Object(
  {
    format: Type.Literal(format),
    // SHA-256 of the manifest's text with zeros in this place.
    sha256: Sum,
    id: Id,
    instanceId: Id,
    svcVersion: Type.String({ maxLength: 100 }),
    schemaVersion: Type.Integer({ minimum: 1 }),
    // The time of the snapshot, and the time when all files were copied; milliseconds since the epoch.
    createdAt: Count,
    finishedAt: Count,
    tables: Type.Array(BackedUpTable),
    repositories: Type.Array(BackedUpRepository),
    files: Type.Array(BackupFile),
  },
  closed,
)
export type Manifest = Static<typeof Manifest>

/** The path of an LFS object in a backup. */
export function pathOfBackedUpLfs({ repositoryId, oid }: { repositoryId: string; oid: string }) {
  return `repositories/${repositoryId}/lfs/${oid.slice(0, 2)}/${oid}`
}

/** The id of the LFS object at a path in a backup; undefined for other files. */
export function lfsIdIn(path: string): string | undefined {
  return /^repositories\/\w+\/lfs\/\w\w\/(\w+)$/.exec(path)?.[1]
}

let validator: ValidateFunction<Manifest> | undefined

/** Formats a manifest, with its checksum. */
export function formatManifest(content: Omit<Manifest, 'format' | 'sha256'>): string {
  const text = `${JSON.stringify({ format, sha256: noSum, ...content }, null, 1)}\n`
  return text.replace(noSum, sumOf(Buffer.from(text)))
}

/** Parses a manifest. Throws a BackupError if it is invalid, damaged or of a newer svc. */
export function readManifest(bytes: Buffer): Manifest {
  const manifest = parse(bytes)
  const knownVersion = migrations.length
  if (isNewer(manifest, 'format', format)) throw newer(`format ${manifest.format}`)
  if (isNewer(manifest, 'schemaVersion', knownVersion))
    throw newer(`schema ${manifest.schemaVersion}`)
  if (!hasItsSum(bytes)) throw damaged('its checksum does not match')
  // Compiled on first use: every command and server loads this file.
  validator ??= new Ajv({ allErrors: false }).compile<Manifest>(Manifest)
  if (!validator(manifest)) throw damaged(faultOf(validator))
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
    // Handled below.
  }
  throw damaged('it is not a JSON object')
}

function isNewer<K extends string>(
  value: object,
  key: K,
  supported: number,
): value is Record<K, number> {
  return (
    key in value && Number(Object.entries(value).find(([name]) => name === key)?.[1]) > supported
  )
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

// Checks beyond the schema. A duplicate could be verified in one place and used in another.
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
  return `${first?.instancePath || 'the manifest'} ${first?.message ?? 'is not valid'}`
}

function damaged(reason: string): BackupError {
  return new BackupError(
    `${manifestFile} is damaged: ${reason}. Use another copy of it, or another folder for a new backup.`,
  )
}

function newer(version: string): BackupError {
  return new BackupError(`The backup is of a newer svc (${version}); use that version.`)
}
