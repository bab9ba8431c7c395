// Tags: exhaustive
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { newTokenString } from '#base/token-string.ts'
import { refsIn } from '../support/backups.ts'
import { until } from '../support/condition.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { untilTidy } from '../support/leftovers.ts'
import { commandOf, processesIn, signal } from '../support/processes.ts'
import { openPushRecords } from '../support/push-records.ts'
import { keptFaults, partRefs } from '../support/retained-commits.ts'
import { type Service, startService } from '../support/service.ts'

const names = Array.from({ length: 800 }, (_, index) => `refs/heads/${10_000 + index}`)

let project: Project
let first: string
let second: string

before(async () => {
  project = await createProject()
  first = await project.git('rev-parse', 'main')
  await project.git('commit', '--quiet', '--amend', '-m', 'Another one')
  second = await project.git('rev-parse', 'main')
})

after(() => project[Symbol.asyncDispose]())

test('an undo is complete after the next start if server and git were killed in the middle of it', async () => {
  await using folder = await temporaryFolder()
  const place = placeIn(folder.path)
  const { wanted } = await dieHalfway(place)
  await using service = await startService(place)
  await assertReported(service, new Map(names.map((ref) => [ref, wanted])))
  assert.ok((await valuesIn(await pathOf(service))).every((value) => value === wanted))
})

test('an undo is complete without a restart if git was killed in the middle of it', async () => {
  await using folder = await temporaryFolder()
  await using service = await startService(placeIn(folder.path))
  await prepare(service)
  using halfway = await stopHalfway(service)
  const { wanted } = halfway
  halfway.kill()
  await halfway.answer
  using records = openPushRecords(service.dataDir)
  await until('the undo is finished', () => records.unfinished().length === 0)
  await assertReported(service, new Map(names.map((ref) => [ref, wanted])))
  assert.ok((await valuesIn(await pathOf(service))).every((value) => value === wanted))
})

test('an undo that was killed overwrites no later changes, and its effect is recorded', async () => {
  await using folder = await temporaryFolder()
  const place = placeIn(folder.path)
  const { path, wanted } = await dieHalfway(place)
  await removeLocks(path)
  const values = await valuesIn(path)
  const moved = names.filter((_, index) => values[index] === wanted)
  const changed = names.find((ref) => !moved.includes(ref)) ?? assert.fail()
  await git(path, ['update-ref', '-d', changed])
  await using service = await startService(place)
  await assertReported(service, new Map(moved.map((ref) => [ref, wanted])))
  const expected = names.map((ref, index) => (ref === changed ? undefined : values[index]))
  assert.deepEqual(await valuesIn(path), expected)
})

type Place = { dataDir: string; env: Record<string, string> }

function placeIn(folder: string): Place {
  return { dataDir: join(folder, 'data'), env: { SVC_ADMIN_TOKEN: newTokenString() } }
}

/** A push that has overwritten very many refs. */
async function prepare({ admin, dataDir }: Service): Promise<void> {
  await admin.post('/repos', { name: 'site' })
  for (const value of [first, second]) {
    const refs = names.map((ref) => `+${value}:${ref}`)
    await project.git('push', '--quiet', admin.remote('site'), ...refs)
  }
  using records = openPushRecords(dataDir)
  await until('the pushes are finished', () => records.unfinished().length === 0)
}

async function dieHalfway(place: Place): Promise<{ path: string; wanted: string }> {
  await using service = await startService(place)
  await prepare(service)
  const path = await pathOf(service)
  using halfway = await stopHalfway(service)
  await service.end('SIGKILL')
  await halfway.answer
  halfway.kill()
  await until('git is gone', () => processesIn(service.dataDir).length === 0)
  return { path, wanted: halfway.wanted }
}

/** A git that is stopped; it does not outlive the test. */
type Halfway = Disposable & { kill: () => void; wanted: string; answer: Promise<unknown> }

/** Undoes the last push, and what that has done, until its git is stopped when some refs have moved and others not. */
async function stopHalfway(service: Service): Promise<Halfway> {
  const path = await pathOf(service)
  using records = openPushRecords(service.dataDir)
  return await until('git is stopped in the middle of an undo', async () => {
    const [last] = (await service.admin.get('/repos/site/pushes?limit=1')).body
    const wanted: string = last.refs[0].before
    let isAnswered = false
    const answer = service.admin
      .post(`/repos/site/pushes/${last.id}/undo`)
      .catch(() => {}) // The server is about to be killed.
      .finally(() => {
        isAnswered = true
      })
    const isUpdating = (pid: number) => commandOf(pid).includes('update-ref')
    const pid = await until('git is at work, or has been', () =>
      isAnswered ? 0 : processesIn(service.dataDir).find(isUpdating),
    )
    if (pid === 0) return undefined
    // Its locks first, then one ref after the other: looked at without a pause, so as not to miss that.
    while (commandOf(pid) !== '' && !hasBegun(path, wanted)) {}
    signal(pid, 'SIGSTOP')
    const values = await valuesIn(path)
    const isHalf = values.includes(wanted) && values.some((value) => value !== wanted)
    const kill = () => signal(pid, 'SIGKILL')
    if (isHalf && records.unfinished().length > 0)
      return { kill, wanted, answer, [Symbol.dispose]: kill }
    signal(pid, 'SIGCONT')
    await answer
    await until('the undo is finished', () => records.unfinished().length === 0)
    return undefined
  })
}

// Git moves them by name or by the order of its own tables.
function hasBegun(path: string, wanted: string): boolean {
  return [0, 100, 200, 300, 400, 500, 600, 700, 799].some(
    (index) => readText(join(path, names[index] ?? '')) === `${wanted}\n`,
  )
}

async function assertReported(service: Service, expected: Map<string, string>): Promise<void> {
  await untilTidy(service.dataDir)
  using records = openPushRecords(service.dataDir)
  assert.deepEqual(records.unfinished(), [], service.log())
  const [last] = (await service.admin.get('/repos/site/pushes?limit=1')).body
  assert.equal(last.via, 'undo')
  const recorded = records.eventsAfter(0).pushes
  const ofUndo = recorded.filter(({ pushId }) => pushId === last.id)
  assert.equal(ofUndo.length, expected.size)
  assert.deepEqual(new Map(ofUndo.map(({ ref, after }) => [ref, after])), expected)
  const { kept } = partRefs(await refsIn(await pathOf(service)))
  assert.deepEqual(keptFaults(kept, recorded), [])
}

async function pathOf({ admin }: Service): Promise<string> {
  return (await admin.get('/repos/site')).body.path
}

async function valuesIn(path: string): Promise<(string | undefined)[]> {
  const refs = await refsIn(path)
  return names.map((ref) => refs.get(ref))
}

// As an administrator would do by hand.
async function removeLocks(path: string): Promise<void> {
  const files = await readdir(path, { recursive: true })
  const locks = files.filter((name) => name.endsWith('.lock'))
  assert.notDeepEqual(locks, [])
  for (const name of locks) await rm(join(path, name))
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
