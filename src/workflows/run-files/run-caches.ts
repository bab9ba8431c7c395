import type { Readable } from 'node:stream'
import { requireRef } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { type Clock, dayMs } from '#base/clock.ts'
import { createLastUsed } from '#base/last-used.ts'
import type { PageRequest } from '#base/list-all.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Db, ProtectionRow } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import type { Git } from '#git/process/git-process.ts'
import { isAncestor } from '#git/refs/ancestry.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, readDefaultBranch, readNamedRefs } from '#git/refs/refs.ts'
import { assertDeclaredSize } from '#http/receive-file.ts'
import { protectionsOf, toProtection } from '#repositories/protection-rules.ts'
import { listProtectionsInForce } from '#repositories/protection-store.ts'
import type { Downloads } from './downloads.ts'
import type { FileLifeCycle, SentFile } from './file-life-cycle.ts'
import type { HeldRun } from './held-run.ts'
import {
  deleteCaches,
  deleteCachesById,
  deleteUnusedCaches,
  findCacheByKey,
  findCacheByPrefix,
  findSameCache,
  insertCache,
  listCacheSizes,
  listCaches,
  maxCachesPerRepository,
  measureCaches,
  type StoredCache,
  updateCacheUse,
} from './run-cache-store.ts'
import { markFilesDead } from './run-file-store.ts'

/** Caches that runs of a repository share. */
export type RunCaches = {
  /** Stores a cache, unless there is one with this key and version. Throws `permission_missing` and what receiving throws. */
  save: (
    run: HeldRun,
    wanted: { key: string; version: string },
    sent: SentFile,
  ) => Promise<{ isNew: boolean; size: number; sha256: string }>
  /**
   * Finds per ref a cache with the first key, or else the newest whose key begins with one of the keys, in their order. As
   * https://docs.github.com/actions/reference/workflows-and-actions/dependency-caching says.
   */
  find: (
    run: HeldRun,
    wanted: { keys: readonly string[]; version: string },
  ) => Promise<StoredCache | undefined>
  /** Opens a cache that was found, and notes its use; undefined when its file is missing. */
  open: (cache: StoredCache, signal: AbortSignal) => Promise<Readable | undefined>
  list: (repositoryId: string, page: PageRequest) => Promise<StoredCache[]>
  /** Deletes caches; returns their number. */
  remove: (
    actor: Principal,
    repositoryId: string,
    which: { id: string } | { key?: string | undefined; ref?: string | undefined },
  ) => Promise<number>
  /** Deletes caches while the disk is nearly full. */
  makeSpace: () => Promise<void>
  /** Deletes those that were not used for long, and those beyond the limits. */
  evict: () => Promise<void>
}

type Dependencies = {
  db: Database
  files: FileLifeCycle
  downloads: Pick<Downloads, 'open'>
  scopes: CacheScopes
  freeSpace: Pick<FreeSpace, 'measure'>
  /** Whether files take space on the disk of the data directory. */
  isOnDisk: boolean
  settings: Pick<
    PlainSettings,
    'cacheMaxBytes' | 'cachesRepositoryMaxBytes' | 'cachesMaxBytes' | 'cacheDays'
  >
  clock: Clock
  log: Log
}

const maxEvictedAtOnce = 1000

type Limits = { maxBytes: number; maxCount: number }

export function createRunCaches(dependencies: Dependencies): RunCaches {
  const { db, files, downloads, scopes, freeSpace, isOnDisk, settings, clock, log } = dependencies
  const maxBytes = Math.min(
    settings.cacheMaxBytes,
    settings.cachesRepositoryMaxBytes,
    settings.cachesMaxBytes,
  )
  const repositoryLimits = {
    maxBytes: settings.cachesRepositoryMaxBytes,
    maxCount: maxCachesPerRepository,
  }
  const serverLimits = {
    maxBytes: settings.cachesMaxBytes,
    maxCount: Number.POSITIVE_INFINITY,
  }
  const noteUse = createLastUsed({
    clock,
    write: (id, at) => updateCacheUse(db, id, at),
    onError: (error, cacheId) => log.warn({ err: error, cacheId }, 'use of a cache not recorded'),
  })

  /** Deletes the least recently used caches beyond the limits, in a repository or in all, but not the given one. */
  async function shrink(
    tx: Db,
    repositoryId: string | undefined,
    { maxBytes, maxCount }: Limits,
    except?: string,
  ): Promise<void> {
    const { sizeBytes, count } = await measureCaches(tx, repositoryId)
    let [excessBytes, excess] = [sizeBytes - maxBytes, count - maxCount]
    if (excessBytes <= 0 && excess <= 0) return
    const evicted: string[] = []
    for (const { id, size } of await listCacheSizes(tx, repositoryId, maxEvictedAtOnce)) {
      if (excessBytes <= 0 && excess <= 0) break
      if (id === except) continue
      evicted.push(id)
      excessBytes -= size
      excess -= 1
    }
    await deleteCachesById(tx, evicted)
    await markFilesDead(tx, evicted, clock.now())
  }

  async function makeSpace(): Promise<void> {
    while (isOnDisk) {
      const { freeBytes, minFreeBytes } = await freeSpace.measure()
      if (freeBytes >= minFreeBytes) return
      const [oldest] = await listCacheSizes(db, undefined, 1)
      if (!oldest) return
      log.warn({ cacheId: oldest.id, freeBytes, minFreeBytes }, 'cache deleted on a full disk')
      await deleteCachesById(db, [oldest.id])
      await markFilesDead(db, [oldest.id], clock.now())
      await files.collect()
    }
  }

  return {
    async save(run, { key, version }, { body, signal }) {
      if (run.isRestricted) throw readOnlyCaches()
      const scope = await scopes.toSave(run)
      if (!scope)
        throw new Problem('ref_not_found', `${run.ref} was deleted, and caches belong to a ref.`)
      const { repositoryId } = run
      const isProtected = scope.isProtected ? 1 : 0
      const same = { repositoryId, ref: scope.ref, version, key, isProtected }
      const former = await findSameCache(db, same)
      if (former) return { isNew: false, size: former.size, sha256: former.sha256 }
      assertDeclaredSize(body, maxBytes)
      await makeSpace()
      const saved = await files.receive({ run, body, maxBytes, signal }, async (tx, file) => {
        const now = clock.now()
        const { id, size, sha256 } = file
        const isNew = await insertCache(tx, { ...same, id, createdAt: now, usedAt: now })
        // Another job was faster.
        if (!isNew) await markFilesDead(tx, [id], now)
        else await shrink(tx, repositoryId, repositoryLimits, id)
        return { isNew, size, sha256 }
      })
      await files.collect()
      return saved
    },

    async find(run, { keys, version }) {
      const [first = ''] = keys
      const { refs, isProtectedOnly } = await scopes.toRead(run)
      for (const ref of refs) {
        const query = { repositoryId: run.repositoryId, ref, version, isProtectedOnly }
        const exact = await findCacheByKey(db, query, first)
        if (exact) return exact
        for (const prefix of keys) {
          const found = await findCacheByPrefix(db, query, prefix)
          if (found) return found
        }
      }
      return undefined
    },

    async open(cache, signal) {
      const content = await downloads.open(cache, signal)
      if (!content) log.error({ cacheId: cache.id }, 'file of a cache missing')
      else noteUse({ id: cache.id, lastUsedAt: cache.usedAt })
      return content
    },

    makeSpace,

    list: (repositoryId, page) => listCaches(db, repositoryId, page),

    async remove(actor, repositoryId, which) {
      const count = await db.transaction().execute(async (tx) => {
        const now = clock.now()
        const deleted = await deleteCaches(tx, repositoryId, which)
        const [first] = deleted
        if (!first) return 0
        for (const cache of deleted) requireRef(actor, cache.ref)
        const ids = deleted.map(({ id }) => id)
        await markFilesDead(tx, ids, now)
        const { key = null, ref = null } = 'id' in which ? first : which
        const data = { key, ref, count: ids.length }
        await recordActions(tx, now, [{ action: 'cache.deleted', actor, repositoryId, data }])
        return ids.length
      })
      await files.collect()
      return count
    },

    async evict() {
      await deleteUnusedCaches(db, clock.now() - settings.cacheDays * dayMs)
      await db.transaction().execute((tx) => shrink(tx, undefined, serverLimits))
      await makeSpace()
    },
  }
}

function readOnlyCaches(): Problem {
  const detail =
    'This run saves no caches, because the user who has proposed its commit may not push to the repository.'
  return new Problem('permission_missing', detail)
}

/**
 * Which caches a run can read, and where it saves its own. As on GitHub, it saves to its own branch or tag, and reads from
 * there and from the default branch. In addition, a run of a protected ref reads only what runs of protected refs have
 * saved. So users who may not push there cannot put files into its steps, not even when another branch becomes the default
 * one, or branches are protected, deleted or created meanwhile.
 */
type CacheScopes = {
  /** Where a run reads: the refs in order. */
  toRead: (run: HeldRun) => Promise<{ refs: string[]; isProtectedOnly: boolean }>
  /** Where a run saves: undefined when its ref was deleted. */
  toSave: (run: HeldRun) => Promise<{ ref: string; isProtected: boolean } | undefined>
}

export function createCacheScopes(
  db: Database,
  git: Git,
  directoryOf: (repositoryId: string) => Promise<string>,
): CacheScopes {
  return {
    async toRead({ repositoryId, ref }) {
      const directory = await directoryOf(repositoryId)
      const rows = await listProtectionsInForce(db, repositoryId)
      const defaultRef = branchPrefix + (await readDefaultBranch(directory))
      return { refs: [...new Set([ref, defaultRef])], isProtectedOnly: covers(rows, ref) }
    },

    async toSave({ repositoryId, ref, commitId, createdAt }) {
      const directory = await directoryOf(repositoryId)
      const tip = (await readNamedRefs(directory, [ref])).get(ref) ?? zeroId
      if (tip === zeroId) return undefined
      // A run from before the protection may have a commit of a user who may not push any more, and so may a run whose
      // commit is no longer in the ref.
      const rows = await listProtectionsInForce(db, repositoryId)
      const earlier = rows.filter((row) => row.createdAt < createdAt)
      const isProtected = covers(earlier, ref) && (await isAncestor(git, directory, commitId, tip))
      return { ref, isProtected }
    },
  }
}

function covers(rows: readonly ProtectionRow[], ref: string): boolean {
  return protectionsOf(ref, rows.map(toProtection)).length > 0
}
