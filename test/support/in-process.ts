import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { createLog } from '#base/log.ts'
import { newTokenString } from '#base/token-string.ts'
import { readSettings } from '#config/settings.ts'
import { startService } from '#server.ts'
import { createClient } from './service.ts'
import { testSettings } from './test-settings.ts'

export type InProcess = Awaited<ReturnType<typeof startInProcess>>

/**
 * The service in the test's own process, for tests that walk its lists or look into its database, or that need no more
 * than a server. By default it has a data directory of its own, which goes with it.
 */
export async function startInProcess(env: Record<string, string> = {}) {
  const dataDir = env.SVC_DATA_DIR ?? (await mkdtemp(join(tmpdir(), 'svc-test-')))
  const adminToken = env.SVC_ADMIN_TOKEN ?? newTokenString()
  const settings = readSettings({
    ...testSettings,
    SVC_DATA_DIR: dataDir,
    SVC_ADMIN_TOKEN: adminToken,
    SVC_LOG_LEVEL: 'warn',
    SVC_STOP_SECONDS: '1',
    ...env,
  })
  let logged = ''
  const output = new Writable({
    write(line, _encoding, done) {
      logged += line
      done()
    },
  })
  const log = createLog({ level: settings.logLevel, output })
  const path = process.env.PATH ?? ''
  const service = await startService({ settings, log, path, version: '0.0.0' })
  const admin = createClient(service.http, adminToken)
  return {
    db: service.db,
    routes: service.routes,
    secrets: service.secrets,
    logins: service.logins,
    url: service.http,
    sshPort: Number(new URL(service.ssh ?? 'ssh://none').port),
    dataDir,
    adminToken,
    admin,
    /** Its warnings and errors. */
    log: () => logged,

    /** A client with a token of its own. */
    async client(wanted: { permissions?: string[]; username?: string } = {}) {
      const { body } = await admin.post('/tokens', { name: 'test', ...wanted })
      return createClient(service.http, body.token, { id: body.id, username: body.username })
    },

    async [Symbol.asyncDispose]() {
      await service.stop()
      if (env.SVC_DATA_DIR !== undefined) return
      await rm(dataDir, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
