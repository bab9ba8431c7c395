import { Type } from 'typebox'
import type { Principal } from '#access/principal.ts'
import { cacheKeyHeader, runFileContentType } from '#actions/runner-api/transfer-limits.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import { nothing, route } from '#http/route.ts'
import { repositoryDeleted } from '#repositories/repository-errors.ts'
import { findRepositorySummary } from '#repositories/repository-summary-store.ts'
import type { Artifacts } from './artifacts.ts'
import type { Downloads } from './downloads.ts'
import type { HeldRun, UrlOfRun } from './held-run.ts'
import type { RunCaches } from './run-caches.ts'
import {
  ArtifactName,
  ArtifactOfRun,
  CacheKey,
  CacheVersion,
  SavedArtifact,
  SavedCache,
  toArtifactOfRun,
} from './run-file-schemas.ts'

type Dependencies = {
  db: Database
  heldRun: (principal: Principal, id: string) => Promise<HeldRun>
  urlOfRun: UrlOfRun
  artifacts: Artifacts
  caches: RunCaches
  downloads: Pick<Downloads, 'open'>
}

const binary = Type.String({ format: 'binary' })
const uploadProblems = ['run_not_found', 'git_busy'] as const

/** The routes with which runners store and read artifacts and caches. */
export function runFileRoutes(dependencies: Dependencies) {
  const { db, heldRun, urlOfRun, artifacts, caches, downloads } = dependencies

  return [
    route('PUT', '/runner/runs/:id/artifacts', {
      operationId: 'saveArtifact',
      tag: 'runners',
      summary: 'Store an artifact of a run',
      description: 'The body is a tar archive, compressed with zstd.',
      permission: 'run',
      isLongLived: true,
      query: Type.Object({
        name: ArtifactName,
        retentionDays: Type.Optional(
          Type.Integer({
            description:
              'days for which it is kept, 1 to 3650, within SVC_ARTIFACT_DAYS_MAX; by default SVC_ARTIFACT_DAYS',
            minimum: 1,
            maximum: 3650,
          }),
        ),
        overwrite: Type.Optional(
          Type.Boolean({
            description: '`true` or `false`: whether it replaces one of this name',
          }),
        ),
      }),
      consumes: runFileContentType,
      reply: { 201: SavedArtifact },
      problems: [...uploadProblems, 'artifact_exists', 'artifact_quota_exceeded'],
      handle: async ({ principal, params, query, bodyStream, clientSignal }) => {
        const { name, retentionDays, overwrite: isOverwriting = false } = query
        const run = await heldRun(principal, params.id)
        const wanted = { name, retentionDays, isOverwriting }
        const content = { body: bodyStream, signal: clientSignal() }
        const { id, size, sha256 } = await artifacts.save(run, wanted, content)
        const repository = await findRepositorySummary(db, run.repositoryId)
        if (!repository) throw repositoryDeleted()
        return { id, name, size, sha256, url: `${urlOfRun(repository, run)}/artifacts/${id}` }
      },
    }),
    route('GET', '/runner/runs/:id/artifacts', {
      operationId: 'listArtifactsOfRun',
      tag: 'runners',
      summary: 'List the artifacts that the jobs of a run can read',
      description:
        'Those of its attempt; when that reuses jobs of earlier ones, also theirs. Of each name, the newest.',
      permission: 'run',
      reply: { 200: Type.Array(ArtifactOfRun) },
      problems: ['run_not_found'],
      handle: async ({ principal, params }) => {
        const run = await heldRun(principal, params.id)
        return (await artifacts.listOfRun(run)).map(toArtifactOfRun)
      },
    }),
    route('GET', '/runner/runs/:id/artifacts/content', {
      operationId: 'getArtifactOfRun',
      tag: 'runners',
      summary: 'Get the content of an artifact of a run',
      permission: 'run',
      isLongLived: true,
      query: Type.Object({ name: ArtifactName }),
      produces: runFileContentType,
      reply: { 200: binary },
      problems: ['run_not_found', 'artifact_not_found', 'storage_full'],
      handle: async ({ principal, params, query, clientSignal, setHeader }) => {
        const run = await heldRun(principal, params.id)
        const { name } = query
        const found = (await artifacts.listOfRun(run)).find((one) => one.name === name)
        const opened = found && (await downloads.open(found, clientSignal()))
        if (!opened) throw new Problem('artifact_not_found', `The run has no artifact "${name}".`)
        setHeader('content-length', String(found.size))
        return opened
      },
    }),
    route('PUT', '/runner/runs/:id/caches', {
      operationId: 'saveCache',
      tag: 'runners',
      summary: 'Store a cache',
      description:
        'The body is a tar archive, compressed with zstd. The cache belongs to the branch or tag of the run. It is ' +
        'never replaced: when there is one with this key and version, the status is 200, and the body is not read.',
      permission: 'run',
      isLongLived: true,
      query: Type.Object({ key: CacheKey, version: CacheVersion }),
      consumes: runFileContentType,
      reply: { 200: SavedCache, 201: SavedCache },
      status: 201,
      problems: [...uploadProblems, 'ref_not_found'],
      handle: async ({ principal, params, query, bodyStream, clientSignal, setStatus }) => {
        const run = await heldRun(principal, params.id)
        const content = { body: bodyStream, signal: clientSignal() }
        const { isNew, size, sha256 } = await caches.save(run, query, content)
        if (!isNew) setStatus(200)
        return { key: query.key, size, sha256 }
      },
    }),
    route('GET', '/runner/runs/:id/caches', {
      operationId: 'restoreCache',
      tag: 'runners',
      summary: 'Get the cache for a key',
      description:
        'Looks for a cache with the first of `keys`, or else for the newest whose key begins with one of them, in their ' +
        'order: first among those of the branch or tag of the run, then among those of the default branch. A run of a ' +
        'protected branch or tag gets only caches that such runs have saved. Without one, the status is 204. The header ' +
        '`Svc-Cache-Key` has the key, percent-encoded.',
      permission: 'run',
      isLongLived: true,
      query: Type.Object({
        keys: Type.Union([CacheKey, Type.Array(CacheKey, { minItems: 1, maxItems: 10 })], {
          description: 'up to 10 keys, each in a parameter of its own',
        }),
        version: CacheVersion,
        lookup: Type.Optional(
          Type.Boolean({
            description: '`true` or `false`: whether only the key is wanted, without the content',
          }),
        ),
      }),
      produces: runFileContentType,
      reply: { 200: binary, 204: nothing },
      problems: ['run_not_found', 'storage_full'],
      handle: async ({ principal, params, query, clientSignal, setHeader, setStatus }) => {
        const run = await heldRun(principal, params.id)
        const { keys, version, lookup: isLookup = false } = query
        const found = await caches.find(run, { keys: [keys].flat(), version })
        const opened = !found || isLookup ? undefined : await caches.open(found, clientSignal())
        if (!found || (!opened && !isLookup)) {
          setStatus(204)
          return undefined
        }
        setHeader(cacheKeyHeader, encodeURIComponent(found.key))
        if (!opened) return Buffer.alloc(0)
        setHeader('content-length', String(found.size))
        return opened
      },
    }),
  ]
}
