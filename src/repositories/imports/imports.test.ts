import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Principal } from '#access/principal.ts'
import { createLog } from '#base/log.ts'
import { createOutbound } from '#base/outbound/outbound.ts'
import { createFreeSpace } from '#config/free-space.ts'
import { readSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import { createSingleNode } from '#database/nodes/nodes.ts'
import { createGit } from '#git/process/git-process.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { publish } from '../../../test/support/publish.ts'
import { describeRepository } from '../describe-repository.ts'
import { createDirectories } from '../directories/directories.ts'
import { findFailedImport, listRunningImports } from '../import-store.ts'
import { isNameTaken } from '../repository-store.ts'
import { createLocalStore } from '../store/local-store.ts'
import { createImportSources } from './import-sources.ts'
import { createImports } from './imports.ts'

const dayMs = 24 * 60 * 60 * 1000
const admin: Principal = {
  kind: 'local',
  id: 'local',
  username: 'admin',
  permissions: new Set(['admin']),
}
const wanted = { source: 'http://slow.example.com/x.git', name: 'x', recordsFailure: true }

onEachDatabase((fresh) => {
  test('the reason of a failed import is shown for a day', async () => {
    await using database = await fresh()
    const db = await database.open()
    await using world = await createWorld(db)
    const imports = world.createImports()
    const { ended } = await imports.start(admin, wanted)
    world.failLookup()
    await assert.rejects(ended, /"slow.example.com" is unknown/)
    world.pass(dayMs)
    await imports.sweep()
    assert.equal((await findFailedImport(db, 'x'))?.faultCode, 'outbound_unresolved')
    world.pass(1)
    await imports.sweep()
    assert.equal(await findFailedImport(db, 'x'), undefined)
  })

  test('a sweep does not touch the imports of other running programs', async () => {
    await using database = await fresh()
    const db = await database.open()
    await using world = await createWorld(db)
    const { ended } = await world.createImports().start(admin, wanted)
    await world.createImports().sweep()
    assert.equal((await listRunningImports(db)).length, 1)
    assert.equal(await isNameTaken(db, 'x'), true)
    world.failLookup()
    await assert.rejects(ended)
    assert.equal(await isNameTaken(db, 'x'), false)
    assert.deepEqual(await readdir(world.staging), [])
  })

  test('during a stop no import starts, and running ones may finish within the timeout', async () => {
    await using database = await fresh()
    const db = await database.open()
    await using world = await createWorld(db)
    const imports = world.createImports()
    const { ended } = await imports.start(admin, wanted)
    const stopped = imports.stop(2 ** 31 - 1)
    await assert.rejects(imports.start(admin, { ...wanted, name: 'y' }), { code: 'git_busy' })
    world.failLookup()
    await assert.rejects(ended, { code: 'outbound_unresolved' })
    await stopped
    assert.equal(await isNameTaken(db, 'y'), false)
  })
})

/** A data directory, a clock, and a name server that does not respond until `failLookup`. */
async function createWorld(db: Database) {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-test-'))
  const settings = readSettings({ SVC_DATA_DIR: dataDir })
  const git = createGit({ settings, owner: dataDir, path: process.env.PATH ?? '' })
  const faultPoint = () => {}
  const directories = createDirectories({ dataDir, git, faultPoint })
  const store = createLocalStore({ ...directories, db, faultPoint })
  await directories.prepare(async () => {})
  const answer = Promise.withResolvers<never>()
  const outbound = createOutbound({
    allow: { classes: ['external'], ranges: [], names: [] },
    lookup: () => answer.promise,
  })
  let now = Date.now()
  const clock = { now: () => now }
  const baseUrl = () => 'http://localhost'
  const sshUrl = () => null
  return {
    staging: join(dataDir, 'staging'),

    pass(ms: number): void {
      now += ms
    },

    failLookup(): void {
      answer.reject(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }))
    },

    createImports: () =>
      createImports({
        db,
        lfsObjects: {
          add: async () => {},
          sizesOf: async () => new Map(),
          bytesLeft: async () => undefined,
        },
        publish,
        git,
        directories,
        store,
        nodes: createSingleNode('here'),
        sources: createImportSources({ git, dataDir, localRoots: [], outbound }),
        freeSpace: createFreeSpace({ folder: dataDir, minBytes: 0, reclaim: async () => {} }),
        repositories: {
          describe: (repository) =>
            describeRepository({ db, store, clock, baseUrl, sshUrl }, repository),
        },
        refresh: async (principal) => principal,
        clock,
        log: createLog({ level: 'silent', output: process.stderr }),
        settings,
        faultPoint,
      }),

    [Symbol.asyncDispose]: () => rm(dataDir, { recursive: true }),
  }
}
