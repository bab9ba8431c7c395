import { Type } from 'typebox'
import { textForm } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import type { StoredArtifact } from './artifact-store.ts'
import type { StoredCache } from './run-cache-store.ts'

const time = Type.Integer({ description: 'milliseconds since the Unix epoch' })
const size = Type.Integer({ description: 'bytes of its file, compressed' })
const sha256 = Type.String({ description: 'the SHA-256 of its file, in hex' })

/** As on GitHub: what file systems do not accept is no name. */
export const ArtifactName = Type.String(
  textForm(
    'the name of an artifact: 1 to 256 characters, other than control characters and `" : < > | * ? / \\`, and not `.` or `..`',
    '^(?!\\.{1,2}$)[^"\\x00-\\x1f\\x7f:<>|*?/\\\\]{1,256}$',
  ),
)

export const CacheKey = Type.String(
  textForm(
    'the key of a cache: 1 to 512 characters, other than control characters and commas',
    '^[^\\x00-\\x1f\\x7f,]{1,512}$',
  ),
)

export const CacheVersion = Type.String({
  ...textForm('1 to 128 of A-Z a-z 0-9 . _ -', '^[\\w.-]{1,128}$'),
  description: 'what the client computes of paths and compression: 1 to 128 of `A-Z a-z 0-9 . _ -`',
})

/** An artifact for the jobs of its run. */
export const ArtifactOfRun = named(
  'ArtifactOfRun',
  Type.Object({ name: Type.String(), size, sha256, createdAt: time }),
)

/** An artifact that was stored. */
export const SavedArtifact = named(
  'SavedArtifact',
  Type.Object({
    id: Type.String(),
    name: Type.String(),
    size,
    sha256,
    url: Type.String({ description: 'where it can be downloaded' }),
  }),
)

export const SavedCache = named('SavedCache', Type.Object({ key: Type.String(), size, sha256 }))

export const Artifact = named(
  'Artifact',
  Type.Object({
    id: Type.String(),
    name: Type.String(),
    attempt: Type.Integer({ description: 'the number of the attempt of the run that made it' }),
    size,
    sha256,
    createdAt: time,
    expiresAt: Type.Integer({ description: 'when it is deleted, in milliseconds since the epoch' }),
  }),
)

export const Cache = named(
  'Cache',
  Type.Object({
    id: Type.String(),
    key: Type.String(),
    version: Type.String(),
    ref: Type.String({ description: 'the full name of the branch or tag whose run saved it' }),
    protected: Type.Boolean({
      description: 'whether runs of protected branches and tags can read it',
    }),
    size,
    createdAt: time,
    lastUsedAt: time,
  }),
)

const Usage = {
  count: Type.Integer({ description: 'how many there are' }),
  sizeBytes: Type.Integer({ description: 'bytes of their files together, compressed' }),
  maxBytes: Type.Integer({ description: 'the limit of the bytes' }),
}

export const RunFileUsage = named(
  'RunFileUsage',
  Type.Object({
    artifacts: Type.Object(Usage),
    caches: Type.Object({
      ...Usage,
      maxCount: Type.Integer({ description: 'the limit of their number' }),
    }),
  }),
)

export function toArtifactOfRun({ name, size, sha256, createdAt }: StoredArtifact) {
  return { name, size, sha256, createdAt }
}

export function toArtifact(artifact: StoredArtifact) {
  const { id, attempt, expiresAt } = artifact
  return { id, attempt, ...toArtifactOfRun(artifact), expiresAt }
}

export function toCache(cache: StoredCache) {
  const { id, key, version, ref, isProtected, size, createdAt, usedAt: lastUsedAt } = cache
  return { id, key, version, ref, protected: isProtected === 1, size, createdAt, lastUsedAt }
}
