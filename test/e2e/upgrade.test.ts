// Tags: exhaustive
import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import pg from 'pg'
import { migrations } from '#database/migrations.ts'
import { runSvc } from '../support/command.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { isShared } from '../support/kind-of-store.ts'
import { without } from '../support/programs.ts'
import { startService } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'

const olderVersion = 11

/** Turns the tables of this version into those of the older one: undoes the newer migrations, the last one first. */
const toOlder = [
  ...migrations
    .slice(olderVersion)
    .flatMap((migration) => migration({ milliseconds: '', sequence: '', bytes: '', ordinal: '' }))
    .reverse()
    .flatMap(undoing),
  `update schema_version set version = ${olderVersion}`,
]

function undoing(statement: string): string[] {
  const [, index] = /^create (?:unique )?index (\w+)/.exec(statement) ?? []
  if (index) return [`drop index ${index}`]
  const [, created] = /^create table (\w+)/.exec(statement) ?? []
  if (created) return [`drop table ${created}`]
  // A table that another one has replaced has its rows again, with the former name of a column.
  const [, former] = /^drop table repository_(\w+)$/.exec(statement) ?? []
  if (former)
    return [
      `create table repository_${former} as select *, scope_id as repository_id from ${former}`,
    ]
  // A column that another one has replaced.
  if (/^alter table webhooks drop column /.test(statement))
    return [
      'alter table webhooks add column repository_id text',
      'update webhooks set repository_id = scope_id',
    ]
  if (/^drop index webhooks_/.test(statement))
    return ['create index webhooks_by_repository on webhooks (repository_id, id)']
  const [, table, change = ''] = /^alter table (\w+) (.*)/s.exec(statement) ?? []
  const [, added] = /^add column (\w+)/.exec(change) ?? []
  if (added) return [`alter table ${table} drop column ${added}`]
  const [, from, to] = /^rename column (\w+) to (\w+)$/.exec(change) ?? []
  if (from) return [`alter table ${table} rename column ${to} to ${from}`]
  const [, renamedTo] = /^rename to (\w+)$/.exec(change) ?? []
  if (renamedTo) return [`alter table ${renamedTo} rename to ${table}`]
  const [, inserted, column, value] =
    /^insert into (\w+) \((\w+), .*values \(('\w+')/.exec(statement) ?? []
  if (inserted) return [`delete from ${inserted} where ${column} = ${value}`]
  // What a migration fills in is in columns and tables that are dropped.
  if (/^update |^insert into \w+( \([^)]+\))?\s+select /.test(statement)) return []
  throw new Error(`This test must learn how to undo: ${statement}`)
}

type Engine = { env: Record<string, string>; execute: (statements: string[]) => Promise<void> }

/** Declares a test for SQLite and for PostgreSQL; it gets what changes the tables of a data directory. */
function onEachEngine(name: string, run: (dataDir: string, engine: Engine) => Promise<void>): void {
  const skip = isShared && 'about the files of a local store'
  test(`${name}, on SQLite`, { skip }, async () => {
    await using folder = await temporaryFolder()
    const dataDir = join(folder.path, 'data')
    await run(dataDir, {
      env: {},
      async execute(statements) {
        using database = new DatabaseSync(join(dataDir, 'svc.db'), { timeout: 5000 })
        for (const statement of statements) database.exec(statement)
      },
    })
  })
  test(`${name}, on PostgreSQL`, { skip: skip || without('postgres') }, async () => {
    await using folder = await temporaryFolder()
    const { url, drop } = await createPostgresDatabase({ isEmpty: true })
    await using _dropped = { [Symbol.asyncDispose]: drop }
    await run(join(folder.path, 'data'), {
      env: { SVC_DATABASE_URL: url },
      async execute(statements) {
        const client = new pg.Client(url)
        await client.connect()
        for (const statement of statements) await client.query(statement)
        await client.end()
      },
    })
  })
}

describe('an upgrade', () => {
  onEachEngine(
    'the first start migrates everything that an older version has stored',
    async (dataDir, engine) => {
      const env = { SVC_DATA_DIR: dataDir, ...engine.env }
      await using project = await createProject()
      const pushed = await project.git('rev-parse', 'main')
      let token = ''
      {
        await using service = await startService({ dataDir, env: engine.env })
        token = service.adminToken
        await service.admin.post('/repos', { name: 'site' })
        await service.admin.post('/keys', { name: 'laptop', publicKey: newKeyLine() })
        await service.admin.put('/repos/site/secrets/API_KEY', { value: 'open sesame' })
        await service.admin.post('/repos/site/webhooks', {
          url: 'http://127.0.0.1:9',
          events: ['push'],
        })
        await project.git('push', '--quiet', service.admin.remote('site'), 'main')
        await service.end('SIGTERM')
      }
      await engine.execute(toOlder)
      const before = await runSvc(['doctor', '--no-fsck'], env)
      assert.match(
        before.out,
        new RegExp(
          `version ${olderVersion}, which the next start migrates to ${migrations.length}`,
        ),
      )
      // No command has been needed, and the token is that of before.
      await using service = await startService({
        dataDir,
        env: { ...engine.env, SVC_ADMIN_TOKEN: token },
      })
      const { admin } = service
      assert.equal(
        (await git(project.path, ['ls-remote', admin.remote('site'), 'main'])).stdout.slice(0, 40),
        pushed,
      )
      assert.deepEqual(
        (await admin.get('/keys')).body.map(({ name }: { name: string }) => name),
        ['laptop'],
      )
      assert.deepEqual(
        (await admin.get('/repos/site/pushes')).body.map(({ via }: { via: string }) => via),
        ['http'],
      )
      assert.equal((await admin.get('/repos/site/secrets')).body.length, 1)
      assert.equal((await admin.get('/repos/site/webhooks')).body.length, 1)
      const { createdAt } = (await admin.get('/tokens')).body[0]
      assert.equal((await admin.get('/users/admin')).body.createdAt, createdAt)
      await project.commit('new')
      await project.git('push', '--quiet', admin.remote('site'), 'main')
      await service.end('SIGTERM')
      const after = await runSvc(['doctor'], env)
      assert.match(after.out, new RegExp(`, version ${migrations.length}[,;]`))
      assert.doesNotMatch(after.out, /^FAULT/m)
      assert.deepEqual(
        (await readdir(dataDir)).filter((name) => /backup|old|bak/.test(name)),
        [],
      )
    },
  )

  onEachEngine(
    'a command does not migrate the tables of a running server',
    async (dataDir, engine) => {
      const env = { SVC_DATA_DIR: dataDir, ...engine.env }
      await using service = await startService({ dataDir, env: engine.env })
      await engine.execute(toOlder)
      const refused = await runSvc(['tokens', 'list'], env)
      assert.match(
        refused.err,
        /^svc: .* it has the tables of an older svc, whose server is running/,
      )
      assert.equal(refused.code, 1)
      await service.end('SIGTERM')
      assert.equal((await runSvc(['tokens', 'list'], env)).code, 0)
    },
  )

  onEachEngine(
    'an older version refuses the database of a newer one, and restores its own backup',
    async (dataDir, engine) => {
      const env = { SVC_DATA_DIR: dataDir, ...engine.env }
      await using project = await createProject()
      const backup = `${dataDir}-backup`
      {
        await using service = await startService({ dataDir, env: engine.env })
        await service.admin.post('/repos', { name: 'site' })
        await project.git('push', '--quiet', service.admin.remote('site'), 'main')
        await service.end('SIGTERM')
      }
      assert.equal((await runSvc(['backup', '--with-keys', backup], env)).code, 0)
      await engine.execute([
        'update schema_version set version = version + 1, oldest_server = version + 1',
      ])
      const newer =
        /The database was created by a newer svc \(version \d+, this one supports \d+\); upgrade svc/
      for (const command of [['serve'], ['tokens', 'list']]) {
        const { code, err } = await runSvc(command, env)
        assert.equal(code, 1)
        assert.match(err, newer)
      }
      const restored = { SVC_DATA_DIR: `${dataDir}-restored` }
      assert.equal((await runSvc(['restore', backup], restored)).code, 0)
      await using service = await startService({ dataDir: restored.SVC_DATA_DIR })
      const found = await git(project.path, ['ls-remote', service.admin.remote('site'), 'main'])
      assert.equal(found.stdout.slice(0, 40), await project.git('rev-parse', 'main'))
    },
  )
})
