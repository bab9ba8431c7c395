import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBackupSite } from '../support/backup-site.ts'
import { assertWhole } from '../support/backups.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { followLog } from '../support/event-stream.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { without } from '../support/programs.ts'
import { begun, claim, mustClaim, wholeRun, wrote } from '../support/run-by-hand.ts'
import { startService } from '../support/service.ts'
import { endOf, logOf, oneStep, pushFiles, runToEnd } from '../support/workflow-site.ts'

const needed = { skip: without('postgres') }

const pushed = `
on: push
concurrency: deploy
jobs:
  one:
    runs-on: ubuntu-latest
    outputs: { word: '\${{ steps.say.outputs.word }}' }
    steps:
      - id: say
        run: echo "word=kept" >> "$GITHUB_OUTPUT"; printf 'a\\0b\\xff\\n'; echo größer
  two:
    needs: one
    runs-on: ubuntu-latest
    steps: [{ run: 'echo "got \${{ needs.one.outputs.word }}"; test -e good' }]
`

test('runs on PostgreSQL behave as on SQLite', needed, async () => {
  const { url, drop } = await createPostgresDatabase()
  {
    const env = { SVC_DATABASE_URL: url, SVC_RUNNER: 'on' }
    await using service = await startService({ env })
    const { admin } = service
    await pushFiles(admin, 'site', { '.svc/workflows/ci.yml': pushed })
    const [{ id }] = await until('the push has started a run', async () => {
      const { body } = await admin.get('/repos/site/workflows')
      return body.length > 0 && body
    })
    const path = `/repos/site/workflows/${id}`
    await using follower = await followLog(admin, `${path}/logs`)
    const followed = await follower.rest()
    const run = await endOf(admin, 'site', id)
    assert.equal(run.conclusion, 'failure')
    assert.equal(followed, await logOf(admin, 'site', id))
    assert.match(followed, /größer/)
    assert.match(followed, /got kept/)
    assert.equal(typeof run.startedAt, 'number')
    await admin.post(`${path}/rerun`, { jobs: 'failed' })
    const again = await endOf(admin, 'site', id)
    assert.deepEqual([again.attempt, again.attempts.length], [2, 1])
    assert.match((await admin.get(`${path}/logs?attempt=1&offset=3`)).text, /größer/)
    await pushFiles(admin, 'site', { good: 'x' }, { message: 'Mend [skip ci]' })
    assert.equal((await runToEnd(admin, 'site')).conclusion, 'success')
    const { body } = await admin.get('/repos/site/workflows?limit=1')
    assert.equal(body[0].result.success, true)
    assert.equal((await admin.delete('/repos/site')).status, 204)
  }
  await drop()
})

test('a name that the database cannot store does not block later pushes', needed, async () => {
  const { url, drop } = await createPostgresDatabase()
  {
    await using service = await startService({ env: { SVC_DATABASE_URL: url } })
    const { admin } = service
    const nul = `run-name: "a\\0\${{ fromJSON('\\"\\\\u0000\\"') }}b"`
    await pushFiles(admin, 'site', {
      '.svc/workflows/name.yml': `${nul}\n${pushed.replace('deploy', '"x\\0y"')}`,
      '.svc/workflows/fault.yml': '"a\\0b": 1\non: { push: , "c\\0": 1 }\n',
    })
    const commit = await pushFiles(admin, 'site', { 'more.txt': 'x' })
    const runs = await until('both pushes are looked at', async () => {
      const { body } = await admin.get('/repos/site/workflows')
      return body.some((run: { commit: string }) => run.commit === commit) && body
    })
    assert.equal(runs.length, 4)
    assert.ok(runs.some(({ name }: { name: string }) => /^a\ufffd.?b$/.test(name)))
  }
  await drop()
})

test('on PostgreSQL concurrent claims get each run once', needed, async () => {
  const { url, drop } = await createPostgresDatabase()
  {
    await using service = await startService({ env: { SVC_DATABASE_URL: url } })
    const { admin } = service
    const grouped = oneStep('true')['.svc/workflows/ci.yml']
    await pushFiles(admin, 'site', {
      '.svc/workflows/free.yml': grouped,
      '.svc/workflows/group.yml': pushed.replace('on: push', 'on: workflow_dispatch'),
    })
    const started = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        admin.post('/repos/site/workflows', { files: [n % 2 ? 'free.yml' : 'group.yml'] }),
      ),
    )
    assert.ok(started.every(({ status }) => status === 202))
    assert.equal(new Set(started.map(({ body }) => body.number)).size, 20)
    const ids: string[] = []
    for (let round = 0; round < 3; round++) {
      const claims = Array.from({ length: 8 }, () => claim(admin, { waitSeconds: 0 }))
      const runs = (await Promise.all(claims)).filter((run) => run !== undefined)
      const groups = runs.filter(({ plan }) => plan.files[0]?.path.endsWith('group.yml'))
      assert.ok(groups.length <= 1)
      ids.push(...runs.map(({ plan }) => plan.runId))
      await Promise.all(runs.map((run) => run.report(...wholeRun())))
    }
    // Of the group, all but one that waited gave way.
    assert.equal(new Set(ids).size, ids.length)
    assert.equal(ids.length, 11)
  }
  await drop()
})

test(
  'a backup has the runs with their attempts and logs, running ones included',
  exhaustive,
  async () => {
    await using site = await createBackupSite()
    const { admin } = site.service
    await pushFiles(admin, 'site', oneStep('echo again'))
    const { body: ended } = await admin.post('/repos/site/workflows', {})
    await (await mustClaim(admin)).report(...wholeRun('failure', 'many words\n'))
    await admin.post(`/repos/site/workflows/${ended.id}/rerun`, {})
    await (await mustClaim(admin)).report(...wholeRun('success', 'other words\n'))
    const { body: running } = await admin.post('/repos/site/workflows', {})
    const held = await mustClaim(admin)
    await held.report(...begun(), wrote('so far\n'))
    const paths = [
      `/repos/site/workflows/${ended.id}`,
      `/repos/site/workflows/${ended.id}/logs`,
      `/repos/site/workflows/${ended.id}/logs?attempt=1`,
    ]
    const responses = await Promise.all(paths.map((path) => admin.get(path)))
    await site.backUp()
    await assertWhole(site.backup)
    await site.restored(async (again) => {
      const restored = await Promise.all(paths.map((path) => again.admin.get(path)))
      assert.deepEqual(
        restored.map(({ text }) => text),
        responses.map(({ text }) => text),
      )
      const path = `/repos/site/workflows/${running.id}`
      // Its token was for the runner of the other server, which does not know this one.
      assert.equal((await again.admin.get(path)).body.status, 'running')
      assert.equal((await again.admin.post(`${path}/cancel`)).status, 202)
      const next = await again.admin.post('/repos/site/workflows', {})
      assert.equal(next.body.number, 3)
    })
  },
)
