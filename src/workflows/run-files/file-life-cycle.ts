import { rm } from 'node:fs/promises'
import { type Clock, dayMs } from '#base/clock.ts'
import { createFairLimiter } from '#base/concurrency/fair-limiter.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { receiveFile } from '#http/receive-file.ts'
import type { BodyStream } from '#http/route.ts'
import { lockRepositoryExclusively } from '#repositories/repository-summary-store.ts'
import type { FileStorage } from './file-storage.ts'
import type { HeldRun } from './held-run.ts'
import {
  abandonFile,
  deleteDeadFile,
  giveUpFilesBefore,
  giveUpFilesOf,
  giveUpUnreferenced,
  insertOpenFile,
  type KeptFile,
  keepFile,
  listDeadFiles,
} from './run-file-store.ts'

/** The files of artifacts and caches, from their upload to their removal. */
export type FileLifeCycle = {
  /**
   * Receives a file, makes it durable, and keeps it in the transaction in which `commit` inserts its artifact or cache.
   * If one of these fails, nothing of it stays. Throws `run_not_found` when the runner has lost the run meanwhile.
   */
  receive: <T>(upload: Upload, commit: (tx: Db, file: KeptFile) => Promise<T>) => Promise<T>
  /** Prepares for a server that starts: what it was receiving when it ended is given up. */
  prepare: () => Promise<void>
  /** Removes files that were given up; in a bucket they stay for a while, and the sweep removes them. */
  collect: () => Promise<void>
  /** Gives up files that a crash or a deletion has left, and removes all that were given up. */
  sweep: () => Promise<void>
}

/** A file that is being sent. */
export type SentFile = { body: BodyStream; signal: AbortSignal }

type Upload = SentFile & { run: HeldRun; maxBytes: number }

type Dependencies = {
  db: Database
  storage: FileStorage
  /** The name of this node. */
  node: string
  /** Whether the runner of a run still holds it. */
  isHeld: (tx: Db, run: HeldRun) => Promise<boolean>
  freeSpace: Pick<FreeSpace, 'require'>
  clock: Clock
  faultPoint: FaultPoint
}

const stallMs = 60_000
const uploadLimits = { overall: 256, perKey: 16, waiting: 1000, waitMs: 60_000 }
const collectedAtOnce = 500
// Longer than any upload, whose runner must hold its run.
const abandonedAfterMs = 8 * dayMs

export function createFileLifeCycle(dependencies: Dependencies): FileLifeCycle {
  const { db, storage, node, isHeld, freeSpace, clock, faultPoint } = dependencies
  const uploads = createFairLimiter(uploadLimits)

  async function receiveInPlace(
    id: string,
    { run: { repositoryId }, body, maxBytes, signal }: Upload,
  ): Promise<KeptFile> {
    const path = storage.draftOf(id)
    try {
      const received = await receiveFile({ body, path, maxBytes, freeSpace, stallMs, signal })
      faultPoint('run-file.received')
      const file = { id, repositoryId, ...received }
      await storage.place(file, signal)
      faultPoint('run-file.placed')
      return file
    } finally {
      // Only this server has the draft, and another one may collect the file.
      await rm(path, { force: true })
    }
  }

  async function store<T>(
    id: string,
    upload: Upload,
    commit: (tx: Db, file: KeptFile) => Promise<T>,
  ): Promise<T> {
    const { run } = upload
    const file = await receiveInPlace(id, upload)
    const result = await db.transaction().execute(async (tx) => {
      // Locked, so that concurrent uploads count when limits are checked.
      const isThere = await lockRepositoryExclusively(tx, file.repositoryId)
      if (
        !isThere ||
        !(await isHeld(tx, run)) ||
        !(await keepFile(tx, { ...file, now: clock.now() }))
      )
        throw new Problem(
          'run_not_found',
          `The run ${run.id} is no longer assigned to this runner.`,
        )
      return commit(tx, file)
    })
    faultPoint('run-file.kept')
    return result
  }

  async function removeDead(): Promise<void> {
    for (;;) {
      const dead = await listDeadFiles(db, clock.now() - storage.graceMs, collectedAtOnce)
      for (const file of dead) {
        await storage.remove(file)
        await deleteDeadFile(db, file.id)
      }
      if (dead.length < collectedAtOnce) return
    }
  }

  async function sweep(): Promise<void> {
    const now = clock.now()
    await giveUpFilesBefore(db, now - abandonedAfterMs, now)
    await giveUpUnreferenced(db, now)
    await removeDead()
  }

  // A request does not wait for a bucket because of files that others have given up.
  async function collect(): Promise<void> {
    if (storage.graceMs === 0) await removeDead()
  }

  return {
    async receive(upload, commit) {
      const { run, signal } = upload
      using _permit = await uploads.acquire([run.actorUsername, run.id], signal)
      const id = newId(clock.now())
      await insertOpenFile(db, { id, repositoryId: run.repositoryId, node, now: clock.now() })
      try {
        return await store(id, upload, commit)
      } catch (error) {
        // If this fails, too, or the commit has an unknown outcome, the sweep does it.
        await abandonFile(db, id, clock.now()).then(collect, () => {})
        throw error
      }
    },

    async prepare() {
      await storage.prepare()
      await giveUpFilesOf(db, node, clock.now())
      // A bucket may not be reachable yet.
      if (storage.graceMs === 0) await sweep()
    },

    collect,
    sweep,
  }
}
