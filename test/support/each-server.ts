import { describe } from 'node:test'
import { createPostgresDatabase } from './databases.ts'
import { exhaustive } from './exhaustive.ts'
import { onlyLocal } from './kind-of-store.ts'
import { without } from './programs.ts'
import { type Service, startServiceWithSsh } from './service.ts'

/** Starts a server that serves SSH, too. */
export type Start = (env?: Record<string, string>) => Promise<Service>

/** Declares the same tests for a server on SQLite and, in the exhaustive suite, for one on PostgreSQL. */
export function onEachServer(declare: (start: Start) => void): void {
  describe('on SQLite', () => declare((env = {}) => startServiceWithSsh({ env })))
  describe('on PostgreSQL', { ...exhaustive, skip: onlyLocal || without('postgres') }, () =>
    declare(startOnPostgres),
  )
}

async function startOnPostgres(env: Record<string, string> = {}): Promise<Service> {
  const { url, drop } = await createPostgresDatabase()
  const service = await startServiceWithSsh({ env: { SVC_DATABASE_URL: url, ...env } })
  return {
    ...service,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await drop()
    },
  }
}
