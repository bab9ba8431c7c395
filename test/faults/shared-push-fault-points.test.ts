// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { faultSteps } from '#base/fault-points.ts'
import { newTokenString } from '#base/token-string.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { commitDated, datedCommit } from '../support/dated-commit.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { sampleOf } from '../support/rounds.ts'
import { type Client, startService } from '../support/service.ts'

const steps = faultSteps.filter((step) => step.startsWith('shared-push.'))
const main = 'refs/heads/main'
// From the commit of the transaction on, the push has happened, although the client does not learn of it.
const durableSteps = ['shared-push.committed', 'shared-push.shown']
// Small packs are part of the transaction, so this address is not used.
const store = {
  SVC_STORE: 's3://unused?endpoint=http://127.0.0.1:1',
  SVC_STORE_ACCESS_KEY_ID: 'unused',
  SVC_STORE_SECRET_ACCESS_KEY: 'unused',
}

describe('with a shared store, a server that is killed', {
  concurrency: 2,
  skip: without('postgres'),
}, () => {
  let project: Project
  let first: string
  let second: string
  let dated: string

  before(async () => {
    project = await createProject()
    first = await project.git('rev-parse', 'main')
    await project.git('commit', '--quiet', '--amend', '-m', 'Another one')
    second = await project.git('rev-parse', 'main')
    dated = await datedCommit(project, first)
  })

  after(() => project[Symbol.asyncDispose]())

  for (const step of sampleOf(steps, 1)) {
    test(`at ${step} has all of the push or nothing, and an empty cache has the same`, () =>
      crash(
        step,
        () => second,
        (admin) => push(admin.remote('site'), `+${second}`),
      ))

    test(`at ${step} has all of a commit of the API or nothing`, () =>
      crash(
        step,
        () => dated,
        (admin) => commitDated(admin, 'site', first),
      ))
  }

  async function crash(
    step: string,
    pushed: () => string,
    act: (admin: Client) => Promise<unknown>,
  ): Promise<void> {
    const database = await createPostgresDatabase()
    await using _dropped = { [Symbol.asyncDispose]: database.drop }
    await using folder = await temporaryFolder()
    const place = {
      dataDir: join(folder.path, 'data'),
      env: {
        ...store,
        SVC_DATABASE_URL: database.url,
        SVC_ADMIN_TOKEN: newTokenString(),
        SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      },
    }
    {
      await using service = await startService(place)
      await service.admin.post('/repos', { name: 'site' })
      await push(service.admin.remote('site'), first)
    }
    {
      const env = { ...place.env, SVC_FAULT_POINT: step }
      await using service = await startService({ ...place, env })
      await act(service.admin).catch(() => {})
      await until('it was killed', () => service.hasEnded())
    }
    const isDone = durableSteps.includes(step)
    for (const keepsCache of [true, false]) {
      if (!keepsCache) rmSync(join(place.dataDir, 'cache'), { recursive: true })
      await using service = await startService(place)
      const { admin } = service
      const { stdout } = await git('/', ['ls-remote', admin.remote('site'), main])
      assert.equal(stdout, `${isDone ? pushed() : first}\t${main}`)
      const { body: pushes } = await admin.get('/repos/site/pushes')
      assert.equal(pushes.length, isDone ? 2 : 1)
      const { body: events } = await admin.get('/events')
      const kinds = events.map(({ kind }: { kind: string }) => kind)
      assert.equal(kinds.filter((kind: string) => kind === 'push').length, pushes.length)
      const clone = join(folder.path, `clone-${keepsCache}`)
      await git('/', ['clone', '--quiet', admin.remote('site'), clone])
      await git(clone, ['fsck', '--strict'])
    }
  }

  function push(remote: string, value: string): Promise<unknown> {
    return project.git('push', '--quiet', remote, `${value}:${main}`)
  }
})
