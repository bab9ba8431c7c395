import { createLog } from '#base/log.ts'
import { createGit, type Git } from '#git/process/git-process.ts'
import type { PushedUpdate } from '#git/refs/refs.ts'
import { createComposer } from '#webhooks/composing/composer.ts'
import { createRunViews } from '#workflows/views/run-view.ts'
import { until } from './condition.ts'
import { createProject } from './git.ts'
import { gitLimits } from './git-limits.ts'
import { type InProcess, startInProcess } from './in-process.ts'
import { publish } from './publish.ts'

const log = createLog({ level: 'silent', output: process.stderr })

/** Composes the webhook payloads of a service; with a repository `site`, and a project that pushes to it. */
export async function startComposingSite() {
  await using started = new AsyncDisposableStack()
  const service = started.use(await startInProcess())
  const project = started.use(await createProject())
  const { admin, db } = service
  await admin.post('/repos', { name: 'site' })
  await project.git('remote', 'add', 'origin', admin.remote('site'))
  const { id: repositoryId } = await db
    .selectFrom('repositories')
    .select('id')
    .executeTakeFirstOrThrow()
  const { composer, countGits } = composerOf(service)
  const resources = started.move()

  /** Composes the payload of an event; fails if there is none. */
  async function compose(seq: number, event = 'push') {
    const own = { id: 'd1', webhookId: 'w1', previousSeq: seq - 1 }
    const text = await composer.compose({ ...own, repositoryId, event, seq })
    if (text === undefined) throw new Error(`there is no payload for ${seq}`)
    return { text, body: JSON.parse(text) }
  }

  /** The events of a kind after a number, once there are as many. */
  function events(kind: string, { after = 0, count = 1 } = {}) {
    return until(`${count} events of ${kind}`, async () => {
      const rows = await db
        .selectFrom('events')
        .selectAll()
        .where('kind', '=', kind)
        .where('seq', '>', after)
        .orderBy('seq')
        .execute()
      return rows.length >= count && rows
    })
  }

  async function lastSeq(): Promise<number> {
    const row = await db
      .selectFrom('marks')
      .select('value')
      .where('name', '=', 'events')
      .executeTakeFirst()
    return row?.value ?? 0
  }

  return {
    service,
    project,
    repositoryId,
    directory: `${service.dataDir}/repositories/${repositoryId.slice(-2)}/${repositoryId}.git`,
    composer,
    /** How many gits have been started to compose. */
    countGits,
    compose,
    events,
    lastSeq,

    /** Publishes a push event without a push; returns its number. */
    async publishPush(update: PushedUpdate): Promise<number> {
      const data = { ...update, pushId: 'p1', via: 'http', repositoryName: 'site' }
      const actor = { id: 'a', username: 'admin' }
      await db
        .transaction()
        .execute((tx) => publish(tx, 5_678, [{ kind: 'push', actor, repositoryId, data }]))
      return lastSeq()
    },

    /** Pushes, and composes the payload of each changed ref. */
    async push(refspecs: string[], options: string[] = []) {
      const after = await lastSeq()
      await project.git('push', '--quiet', ...options, 'origin', ...refspecs)
      const rows = await events('push', { after, count: refspecs.length })
      return Promise.all(rows.map(async ({ seq }) => (await compose(seq)).body))
    },

    [Symbol.asyncDispose]: () => resources[Symbol.asyncDispose](),
  }
}

function composerOf(service: InProcess) {
  const { db, dataDir } = service
  const git = createGit({ owner: dataDir, path: process.env.PATH ?? '', settings: gitLimits })
  let gits = 0
  const counting: Git = {
    ...git,
    start(...wanted) {
      gits += 1
      return git.start(...wanted)
    },
  }
  const composer = createComposer({
    db,
    git: counting,
    directoryOf: async (id) => `${dataDir}/repositories/${id.slice(-2)}/${id}.git`,
    describeRun: createRunViews({ db, git }).atEvent,
    openSecrets: service.secrets.open,
    baseUrl: () => 'http://svc.test',
    clock: { now: () => 1_234 },
    log,
  })
  return { composer, countGits: () => gits }
}
