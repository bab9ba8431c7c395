import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe } from 'node:test'
import pg from 'pg'
import { createLog } from '#base/log.ts'
import { type Database, openDatabase } from '#database/database.ts'
import type { Engine } from '#database/migrate.ts'
import { exhaustive } from './exhaustive.ts'
import { without } from './programs.ts'

/** A new, empty database that can be opened several times, and goes away when disposed of. */
export type Fresh = { open: () => Promise<Database> } & AsyncDisposable

/** A database that is not empty has the tables of the newest version, as copied from a template. */
type DatabaseOptions = { isEmpty?: boolean }

const log = createLog({ level: 'silent', output: process.stderr })

/** Declares the same tests for SQLite and, in the exhaustive suite, for PostgreSQL. */
export function onEachDatabase(
  declare: (fresh: (options?: DatabaseOptions) => Promise<Fresh>, engine: Engine) => void,
): void {
  describe('on SQLite', () => declare(freshSqlite, 'sqlite'))
  describe('on PostgreSQL', { ...exhaustive, skip: without('postgres') }, () =>
    declare(freshPostgres, 'postgres'),
  )
}

async function freshSqlite(): Promise<Fresh> {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-test-'))
  return tracked(
    () => openDatabase({ dataDir, url: undefined, log }),
    () => rm(dataDir, { recursive: true, force: true }),
  )
}

/** The URL of a new database on the PostgreSQL of the tests. */
export async function createPostgresDatabase({ isEmpty = false }: DatabaseOptions = {}): Promise<{
  url: string
  drop: () => Promise<void>
}> {
  const server = process.env.SVC_TEST_DATABASE_URL ?? ''
  const template = process.env.SVC_TEST_DATABASE_TEMPLATE
  const name = `svc_${randomBytes(8).toString('hex')}`
  const from = isEmpty || template === undefined ? '' : ` template ${template}`
  await execute(server, `create database ${name}${from}`)
  return {
    url: databaseUrl(server, name),
    drop: () => execute(server, `drop database ${name} with (force)`),
  }
}

/** Creates the database that others are copied from, so that their tables are created only once; its name. */
export async function createTemplate(server: string): Promise<string> {
  const name = 'svc_template'
  await execute(server, `create database ${name}`)
  await (await openDatabase({ dataDir: '', url: databaseUrl(server, name), log })).destroy()
  return name
}

function databaseUrl(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

async function freshPostgres(options?: DatabaseOptions): Promise<Fresh> {
  const { url, drop } = await createPostgresDatabase(options)
  return tracked(() => openDatabase({ dataDir: '', url, log }), drop)
}

function tracked(open: () => Promise<Database>, remove: () => Promise<void>): Fresh {
  const opened: Database[] = []
  return {
    async open() {
      const db = await open()
      opened.push(db)
      return db
    },
    async [Symbol.asyncDispose]() {
      for (const db of opened) await db.destroy()
      await remove()
    },
  }
}

async function execute(url: string, statement: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  await client.query(statement)
  await client.end()
}
