// Tags: exhaustive
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Command } from 'commander'
import pg from 'pg'
import { describedProgram } from '../../scripts/man-page.ts'
import { runSvc } from '../support/command.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { temporaryFolder } from '../support/git.ts'
import { onlyLocal } from '../support/kind-of-store.ts'
import { without } from '../support/programs.ts'
import { startService } from '../support/service.ts'

/** Those that use a data directory, apart from `serve`; all of them need its database. */
const onDataDirectory = [
  ...['audit', 'backup', 'import', 'keys-add', 'store adopt'],
  ...['deleted-repos list', 'deleted-repos purge', 'deleted-repos restore'],
  ...['keys add', 'keys list', 'keys remove', 'tokens create', 'tokens list', 'tokens revoke'],
  ...['repos create', 'repos delete', 'repos import', 'repos list', 'repos maintain'],
  ...['secrets delete', 'secrets list', 'secrets rotate', 'secrets set'],
  ...['create', 'delete', 'limit', 'list', 'rename', 'show', 'usage'].map(
    (word) => `namespaces ${word}`,
  ),
  ...['add', 'list', 'remove'].map((word) => `namespaces members ${word}`),
  ...['delete', 'disable', 'enable', 'list', 'show', 'update'].map((word) => `users ${word}`),
]

const refusal =
  /cannot be opened: it is empty, and the data directory \S+ is not: they do not belong together\. Set SVC_DATABASE_URL/

describe('a data directory whose database is on PostgreSQL', {
  skip: onlyLocal || without('postgres'),
}, () => {
  const resources = new AsyncDisposableStack()
  let home: string
  let dataDir: string
  let environment: Record<string, string>
  let files: string[]

  before(async () => {
    home = resources.use(await temporaryFolder()).path
    dataDir = join(home, 'data')
    environment = { HOME: home, SVC_DATA_DIR: dataDir, SVC_PORT: '0', SVC_SSH_PORT: 'off' }
    const database = await createPostgresDatabase()
    resources.defer(() => database.drop())
    await using service = await startService({ dataDir, env: { SVC_DATABASE_URL: database.url } })
    await service.end('SIGTERM')
    files = await readdir(dataDir)
  })

  after(() => resources.disposeAsync())

  test('no command works on a new SQLite database when SVC_DATABASE_URL is missing', async () => {
    const refused: string[] = []
    const commands = commandsOf(describedProgram()).filter(({ words }) => words[0] !== 'serve')
    for (const { words, names } of commands) {
      const { code, err } = await runSvc([...words, ...names], environment)
      if (refusal.test(err)) refused.push(words.join(' '))
      if (refusal.test(err)) assert.equal(code, 1, words.join(' '))
      assert.ok(!existsSync(join(dataDir, 'svc.db')), `${words.join(' ')} made a database`)
    }
    assert.deepEqual(refused.sort(), onDataDirectory.sort())
    assert.deepEqual(await readdir(dataDir), files)
  })

  test('a server does not start on a new SQLite database either', async () => {
    await assert.rejects(startService({ dataDir }), refusal)
    assert.ok(!existsSync(join(dataDir, 'svc.db')))
  })

  test('no command creates tables in another database', async () => {
    const { url, drop } = await createPostgresDatabase({ isEmpty: true })
    await using _dropped = { [Symbol.asyncDispose]: drop }
    const env = { ...environment, SVC_DATABASE_URL: url }
    await assert.rejects(startService({ dataDir, env }), refusal)
    for (const command of ['tokens list', 'backup x']) {
      assert.match((await runSvc(command.split(' '), env)).err, refusal, command)
    }
    const client = new pg.Client(url)
    await client.connect()
    const tables = "select tablename from pg_tables where schemaname = 'public'"
    assert.deepEqual((await client.query(tables)).rows, [])
    await client.end()
  })
})

/** The commands that do something, with values for their arguments. */
function commandsOf(parent: Command, words: string[] = []): { words: string[]; names: string[] }[] {
  return parent.commands.flatMap((command) => {
    const own = [...words, command.name()]
    const names = command.registeredArguments.map(() => 'x')
    const isGroup = command.commands.length > 0 && command.registeredArguments.length === 0
    return [...(isGroup ? [] : [{ words: own, names }]), ...commandsOf(command, own)]
  })
}
