import type { Principal } from '#access/principal.ts'
import { type Clock, dayMs } from '#base/clock.ts'
import { isId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import { assertDeclaredSize } from '#http/receive-file.ts'
import {
  deleteArtifact,
  deleteExpiredArtifacts,
  insertArtifact,
  listArtifacts,
  measureArtifacts,
  type StoredArtifact,
} from './artifact-store.ts'
import type { FileLifeCycle, SentFile } from './file-life-cycle.ts'
import type { HeldRun } from './held-run.ts'
import { type KeptFile, markFilesDead } from './run-file-store.ts'

/** Artifacts: files that runs keep for people and for their later jobs. */
export type Artifacts = {
  /** Stores an artifact of a run's current attempt. Throws `artifact_exists`, `artifact_quota_exceeded` and what receiving throws. */
  save: (run: HeldRun, wanted: WantedArtifact, sent: SentFile) => Promise<KeptFile>
  /** The artifacts that the jobs of a run can read. */
  listOfRun: (run: HeldRun) => Promise<StoredArtifact[]>
  /** The artifacts of a run, of all its attempts, oldest first. */
  list: (runId: string) => Promise<StoredArtifact[]>
  /** Finds an artifact of a run by its id, or the newest one by its name. Throws `artifact_not_found`. */
  find: (runId: string, idOrName: string) => Promise<StoredArtifact>
  remove: (actor: Principal, artifact: StoredArtifact) => Promise<void>
  /** Deletes those whose time is over. */
  expire: () => Promise<void>
}

type WantedArtifact = {
  name: string
  retentionDays: number | undefined
  isOverwriting: boolean
}

type Dependencies = {
  db: Database
  files: FileLifeCycle
  /** Frees space by evicting less valuable files, while the disk is nearly full. */
  makeSpace: () => Promise<void>
  settings: Pick<
    PlainSettings,
    'artifactMaxBytes' | 'artifactsRepositoryMaxBytes' | 'artifactDays' | 'artifactMaxDays'
  >
  clock: Clock
}

// As on GitHub, for a job.
const maxPerAttempt = 500

export function createArtifacts(dependencies: Dependencies): Artifacts {
  const { db, files, makeSpace, settings, clock } = dependencies
  const { artifactMaxBytes, artifactsRepositoryMaxBytes, artifactDays, artifactMaxDays } = settings

  /** Throws unless an artifact may be added; returns the one that it replaces. */
  async function requirePlace(
    tx: Db,
    run: HeldRun,
    { name, isOverwriting }: WantedArtifact,
    bytes: number,
  ): Promise<StoredArtifact | undefined> {
    const own = (await listArtifacts(tx, run.id)).filter(({ attempt }) => attempt === run.attempt)
    const former = own.find((one) => one.name === name)
    if (former && !isOverwriting) throw artifactExists(name)
    if (!former && own.length >= maxPerAttempt) {
      const detail = `A run can have ${maxPerAttempt} artifacts; put more files into one of them.`
      throw new Problem('artifact_quota_exceeded', detail)
    }
    const kept = await measureArtifacts(tx, run.repositoryId)
    // The other half is for the runs of those who may push.
    const maxBytes = artifactsRepositoryMaxBytes / (run.isRestricted ? 2 : 1)
    if (kept.sizeBytes - (former?.size ?? 0) + bytes > maxBytes) {
      const detail = `The artifacts of a repository can have ${maxBytes} bytes together; delete some of them, or keep them for fewer days.`
      throw new Problem('artifact_quota_exceeded', detail)
    }
    return former
  }

  const list: Artifacts['list'] = async (runId) => {
    const all = await listArtifacts(db, runId)
    return all.filter(({ expiresAt }) => expiresAt > clock.now())
  }

  return {
    list,

    async save(run, wanted, { body, signal }) {
      const { name, retentionDays = artifactDays } = wanted
      assertDeclaredSize(body, artifactMaxBytes)
      await requirePlace(db, run, wanted, body.declaredBytes ?? 0)
      await makeSpace()
      const upload = { run, body, maxBytes: artifactMaxBytes, signal }
      const saved = await files.receive(upload, async (tx, file) => {
        const former = await requirePlace(tx, run, wanted, file.size)
        const now = clock.now()
        if (former) {
          await deleteArtifact(tx, former.id)
          await markFilesDead(tx, [former.id], now)
        }
        const isNew = await insertArtifact(tx, {
          id: file.id,
          repositoryId: run.repositoryId,
          runId: run.id,
          attempt: run.attempt,
          name,
          createdAt: now,
          expiresAt: now + Math.min(retentionDays, artifactMaxDays) * dayMs,
        })
        if (!isNew) throw artifactExists(name)
        return file
      })
      if (wanted.isOverwriting) await files.collect()
      return saved
    },

    async listOfRun(run) {
      const all = (await list(run.id)).filter(({ attempt }) => attempt <= run.attempt)
      // An attempt that reuses jobs of former ones has their artifacts, too.
      const reusesJobs = JSON.parse(run.kept).length > 0
      const visible = reusesJobs ? all : all.filter(({ attempt }) => attempt === run.attempt)
      return [...new Map(visible.map((one) => [one.name, one])).values()]
    },

    async find(runId, idOrName) {
      const all = await list(runId)
      const byId = isId(idOrName) ? all.find(({ id }) => id === idOrName) : undefined
      const found = byId ?? all.findLast(({ name }) => name === idOrName)
      if (found) return found
      throw new Problem('artifact_not_found', `The run has no artifact "${idOrName}".`)
    },

    async remove(actor, { id, repositoryId, runId, name }) {
      await db.transaction().execute(async (tx) => {
        const now = clock.now()
        if (!(await deleteArtifact(tx, id)))
          throw new Problem('artifact_not_found', `The artifact "${name}" was deleted before.`)
        await markFilesDead(tx, [id], now)
        const action = { action: 'artifact.deleted', data: { runId, name } } as const
        await recordActions(tx, now, [{ ...action, actor, repositoryId }])
      })
      await files.collect()
    },

    expire: () => deleteExpiredArtifacts(db, clock.now()),
  }
}

function artifactExists(name: string): Problem {
  const detail = `This attempt of the run has an artifact "${name}"; use another name, or overwrite it.`
  return new Problem('artifact_exists', detail)
}
