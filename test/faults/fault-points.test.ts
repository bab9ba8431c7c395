// Tags: exhaustive
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { type FaultStep, faultSteps } from '#base/fault-points.ts'
import { newTokenString } from '#base/token-string.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { assertSameContent, assertSound, createOddSource } from '../support/import-sources.ts'
import { repositoryFolders, untilTidy } from '../support/leftovers.ts'
import { orphansOf } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { onlyInSoak, sampleOf } from '../support/rounds.ts'
import { type Answer, launcher, type Service, startService } from '../support/service.ts'
import { openTables } from '../support/tables.ts'

/** The file that walks the steps of each kind of work. */
const walkers: Record<string, string> = {
  create: 'fault-points.test.ts',
  import: 'fault-points.test.ts',
  rename: 'fault-points.test.ts',
  delete: 'fault-points.test.ts',
  undelete: 'fault-points.test.ts',
  purge: 'fault-points.test.ts',
  maintenance: '../e2e/maintenance.test.ts',
  adopt: '../e2e/store-moves.test.ts',
  backup: 'backup-crash.test.ts',
  restore: 'backup-crash.test.ts',
  secrets: '../e2e/secret-keys.test.ts',
  run: 'workflow-fault-points.test.ts',
  'run-file': 'run-file-crash.test.ts',
  lfs: 'lfs-crash.test.ts',
  push: 'push-fault-points.test.ts',
  'small-push': 'push-fault-points.test.ts',
  proposal: 'push-fault-points.test.ts',
  queue: 'queue-load.test.ts',
  'shared-push': 'shared-push-fault-points.test.ts',
  undo: 'push-fault-points.test.ts',
  'default-branch': '../e2e/default-branch.test.ts',
  delivery: 'webhook-crash.test.ts',
}

/** What is done when the program ends, by HTTP or by a command, and what is there after the next start. */
type Scenario = {
  /** Whether `site` is there beforehand. */
  hasSite: boolean
  request: (service: Service) => Promise<Answer>
  command?: string[]
  outcome: Outcome
  env?: Record<string, string>
  /** Whether `site` can be restored afterwards. */
  isRestorable?: boolean
  /** What is tried afterwards, if that is not the request once more; it succeeds. */
  retried?: (service: Service) => Promise<Answer>
}

type Outcome = {
  /** The names that there are. */
  names: string[]
  /** Its events. */
  events: string[]
}

const settings = { SVC_ADMIN_TOKEN: newTokenString() }
let odd: Awaited<ReturnType<typeof createOddSource>>
let folder: Awaited<ReturnType<typeof temporaryFolder>>

before(async () => {
  odd = await createOddSource()
  folder = await temporaryFolder()
  for (const hasSite of [true, false]) {
    await prepare({ dataDir: preparedPath(hasSite), env: settings }, hasSite)
  }
})

after(async () => {
  await odd[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
})

/** A data directory of SQLite to copy, with the repository `site` or without. */
const preparedPath = (hasSite: boolean) => join(folder.path, hasSite ? 'with-site' : 'without-site')

const nothing: Outcome = { names: [], events: [] }
const made: Outcome = { names: ['site'], events: ['repository.created'] }
const imported: Outcome = { names: ['site'], events: ['repository.imported'] }
const renamed: Outcome = { names: ['other'], events: ['repository.renamed'] }
const unchanged: Outcome = { names: ['site'], events: [] }
const deleted: Outcome = { names: [], events: ['repository.deleted'] }
const restored: Outcome = {
  names: ['site'],
  events: ['repository.deleted', 'repository.restored'],
}

const create = (outcome: Outcome): Scenario => ({
  hasSite: false,
  request: ({ admin }) => admin.post('/repos', { name: 'site' }),
  command: ['create', 'site'],
  outcome,
})

const imports = (outcome: Outcome, source = () => odd.path): Scenario => ({
  hasSite: false,
  request: ({ admin }) => admin.post('/repos/import', { source: source(), name: 'site' }),
  command: ['import', '<source>', 'site'],
  outcome,
})

const rename = (outcome: Outcome): Scenario => ({
  hasSite: true,
  request: ({ admin }) => admin.patch('/repos/site', { name: 'other' }),
  outcome,
})

const remove = (outcome: Outcome): Scenario => ({
  hasSite: true,
  request: ({ admin }) => admin.delete('/repos/site'),
  command: ['delete', 'site', '--yes'],
  outcome,
})

/** Deletes it for good. */
const erase = (outcome: Outcome): Scenario => ({
  ...remove(outcome),
  env: { SVC_DELETED_RETENTION_DAYS: '0' },
})

const undelete = (outcome: Outcome): Scenario => ({
  hasSite: true,
  request: async ({ admin }) => {
    const { body } = await admin.get('/repos/site')
    await admin.delete('/repos/site')
    return admin.post(`/deleted-repos/${body.id}/restore`)
  },
  outcome,
})

const purge = (outcome: Outcome): Scenario => ({
  hasSite: true,
  request: async ({ admin }) => {
    const { body } = await admin.get('/repos/site')
    await admin.delete('/repos/site')
    return admin.delete(`/deleted-repos/${body.id}`)
  },
  outcome,
})

const scenarios: Partial<Record<FaultStep, Scenario>> = {
  'create.made': create(nothing),
  'create.placed': create(nothing),
  'create.recorded': create(made),
  'import.reserved': imports(nothing),
  'import.copied': imports(nothing),
  'import.fetched': imports(nothing),
  'import.placed': imports(nothing),
  'import.recorded': imports(imported),
  // It fails, and what it made is cleared away when the program ends.
  'import.cleared': {
    ...imports(nothing, () => '/nonexistent'),
    command: ['import', '/nonexistent', 'site'],
    retried: imports(imported).request,
  },
  'rename.updated': rename(unchanged),
  'rename.recorded': rename(renamed),
  'delete.marked': erase(unchanged),
  'delete.recorded': erase(deleted),
  'delete.moved': erase(deleted),
  'delete.retained': { ...remove(deleted), isRestorable: true },
  'delete.put-away': { ...remove(deleted), isRestorable: true },
  'undelete.moved': { ...undelete(deleted), isRestorable: true },
  'undelete.recorded': undelete(restored),
  'purge.begun': purge(deleted),
}

test('every fault point is reached by a test', () => {
  const folder = fileURLToPath(new URL('.//', import.meta.url))
  for (const step of faultSteps) {
    const [work = ''] = step.split('.')
    const walker = walkers[work]
    assert.ok(walker !== undefined, `no test reaches the fault points of ${work}`)
    assert.ok(existsSync(join(folder, walker)), walker)
    if (walker === 'fault-points.test.ts') assert.ok(scenarios[step], `no scenario for ${step}`)
    else assert.ok(readFileSync(join(folder, walker), 'utf8').includes('faultSteps'), walker)
  }
})

describe('killed at a fault point', { concurrency: 3 }, () => {
  for (const [step, scenario] of sampleOf(Object.entries(scenarios), 4)) {
    test(`a server killed at ${step} leaves everything done or undone`, () =>
      crash(step, scenario, 'server'))
    if (!scenario.command) continue
    test(`a command killed at ${step} leaves everything done or undone`, onlyInSoak, () =>
      crash(step, scenario, 'command'),
    )
  }
})

describe('on PostgreSQL', { skip: without('postgres') }, () => {
  const steps = [
    'create.placed',
    'import.placed',
    'import.recorded',
    'delete.recorded',
    'delete.retained',
    'undelete.moved',
    'undelete.recorded',
    'purge.begun',
  ] as const
  for (const step of sampleOf(steps, 1)) {
    test(`a server killed at ${step} leaves everything done or undone`, async () => {
      const database = await createPostgresDatabase()
      const scenario = scenarios[step]
      assert.ok(scenario)
      try {
        await crash(step, scenario, 'server', { SVC_DATABASE_URL: database.url })
      } finally {
        await database.drop()
      }
    })
  }
})

type Place = { dataDir: string; env: Record<string, string> }

async function crash(
  step: string,
  scenario: Scenario,
  who: 'server' | 'command',
  database?: { SVC_DATABASE_URL: string },
): Promise<void> {
  await using own = await temporaryFolder()
  const env = { ...settings, ...database, ...scenario.env }
  const place = { dataDir: join(own.path, 'data'), env }
  if (database) await prepare(place, scenario.hasSite)
  else {
    const from = preparedPath(scenario.hasSite)
    await cp(from, place.dataDir, { recursive: true, preserveTimestamps: true })
  }
  const die = who === 'server' ? dieInServer : dieInCommand
  await die(place, step, scenario)

  await using service = await startService(place)
  const { names, events } = scenario.outcome
  assert.deepEqual(await namesIn(service), names, service.log())
  const published = await eventsOf(place)
  const before = scenario.hasSite ? ['repository.created'] : []
  assert.deepEqual(published, [...before, ...events], service.log())
  await assertWhole(service)
  await assertRestorable(service, scenario.isRestorable === true)
  await repeat(service, scenario)
  await assertWhole(service)
}

/** Deleted repositories are restored whole, and deleted again. */
async function assertRestorable({ admin }: Service, isRestorable: boolean): Promise<void> {
  const { body: deleted } = await admin.get('/deleted-repos')
  assert.equal(deleted.length, isRestorable ? 1 : 0)
  for (const { id } of deleted) {
    const { status, text, body } = await admin.post(`/deleted-repos/${id}/restore`)
    assert.equal(status, 200, text)
    await assertSameContent(body.path, odd.path)
    assert.equal((await admin.delete('/repos/site')).status, 204)
  }
}

async function prepare(place: Place, hasSite: boolean): Promise<void> {
  await using service = await startService(place)
  if (hasSite) {
    assert.equal((await service.admin.post('/repos', { name: 'site' })).status, 201)
    await git(odd.path, ['push', '--quiet', service.admin.remote('site'), '+refs/*:refs/*'])
  }
  assert.equal(await service.end('SIGTERM'), 0)
}

async function dieInServer(place: Place, step: string, scenario: Scenario): Promise<void> {
  const env = { ...place.env, SVC_FAULT_POINT: step }
  await using service = await startService({ ...place, env })
  // The connection breaks when the server dies.
  await scenario.request(service).catch(() => {})
  await until('it was killed', () => service.hasEnded())
  assert.equal(await service.end('SIGKILL'), null)
}

/** The command dies while a server runs, and that is killed as well. */
async function dieInCommand(place: Place, step: string, { command }: Scenario): Promise<void> {
  await using service = await startService(place)
  const words = ['repos', ...(command ?? [])].map((word) => (word === '<source>' ? odd.path : word))
  const child = spawn(launcher, words, {
    env: {
      PATH: process.env.PATH,
      SVC_DATA_DIR: place.dataDir,
      SVC_FREE_SPACE_MIN: '0',
      SVC_FAULT_POINT: step,
      ...place.env,
    },
    stdio: 'ignore',
  })
  const [, signalName] = await once(child, 'exit')
  assert.equal(signalName, 'SIGKILL')
  assert.equal((await service.admin.get('/health')).status, 200)
  await service.end('SIGKILL')
}

async function namesIn({ admin }: Service): Promise<string[]> {
  return (await admin.get('/repos')).body.map(({ name }: { name: string }) => name)
}

/** The events of repositories except pushes; checks that there are no gaps. */
async function eventsOf({ dataDir, env }: Place): Promise<string[]> {
  const url = env.SVC_DATABASE_URL
  const rows = url ? await eventsOn(url) : eventsIn(dataDir)
  assert.deepEqual(
    rows.map(({ seq }) => Number(seq)),
    rows.map((_, index) => index + 1),
  )
  return rows.map(({ kind }) => String(kind)).filter((kind) => kind.startsWith('repository.'))
}

function eventsIn(dataDir: string) {
  using tables = openTables(dataDir)
  return tables.rows('events')
}

async function eventsOn(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query('select seq, kind from events order by seq')
  await client.end()
  return rows
}

/** Rows match directories, which are valid; staging, trash and processes are gone. */
async function assertWhole(service: Service): Promise<void> {
  const { admin, dataDir } = service
  await untilTidy(dataDir)
  await until('no git is left', () => orphansOf(service).length === 0)
  assert.ok(!existsSync(join(dataDir, 'lost+found')))
  const { body } = await admin.get('/repos')
  const paths = body.map(({ path }: { path: string }) => path).sort()
  assert.deepEqual(paths, await repositoryFolders(dataDir))
  for (const path of paths) {
    await assertSound(path)
    assert.ok(!existsSync(join(path, 'svc-deleting')), path)
  }
  for (const { state } of body) assert.equal(state, 'ready')
}

/** Does the same again: what was not done is done, and what was done can be made undone and done once more. */
async function repeat(service: Service, { request, hasSite, outcome, retried }: Scenario) {
  const isUndone = (await namesIn(service)).includes('site') === hasSite
  if (!isUndone && hasSite) await service.admin.post('/repos', { name: 'site' })
  if (!isUndone && !hasSite) await service.admin.delete('/repos/site')
  if (outcome === renamed) await service.admin.delete('/repos/other')
  const answer = await (retried ?? request)(service)
  assert.ok(answer.status < 300, answer.text)
  const { body } = await service.admin.get('/repos/site')
  if (answer.body?.name === 'site' && !body.empty) await assertSameContent(body.path, odd.path)
}
