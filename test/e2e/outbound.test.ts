import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { openExistingApp } from '#app.ts'
import { createLog } from '#base/log.ts'
import { readSettings } from '#config/settings.ts'
import { temporaryFolder } from '../support/git.ts'
import { launcher, startService } from '../support/service.ts'

const execute = promisify(execFile)

test('an invalid list stops the start with the reason in one line', async () => {
  await using folder = await temporaryFolder()
  const env = {
    PATH: process.env.PATH,
    SVC_DATA_DIR: `${folder.path}/data`,
    SVC_OUTBOUND_ALLOW: 'external,*.example.com',
  }
  await assert.rejects(execute(launcher, ['serve'], { env }), {
    code: 2,
    stdout: '',
    stderr:
      'svc: SVC_OUTBOUND_ALLOW: "*.example.com" has a wildcard, and names are compared as a whole; it takes ' +
      'hosts, IP addresses, CIDRs and the words external, private and loopback, separated by commas; or none.\n',
  })
})

test('this machine is allowed by name only while the service listens on loopback, or if listed', async () => {
  await using service = await startService()
  const resolve = async (env: Record<string, string>, host: string) => {
    const settings = readSettings({ SVC_DATA_DIR: service.dataDir, ...env })
    const log = createLog({ level: 'silent', output: process.stderr })
    const path = process.env.PATH ?? ''
    await using app = await openExistingApp({ settings, log, path, version: '0' })
    return await app.outbound.resolve(host)
  }
  const own = /^(127\.0\.0\.1|::1)$/
  for (const address of await resolve({}, 'localhost')) assert.match(address, own)
  await assert.rejects(resolve({ SVC_HOST: '0.0.0.0' }, 'localhost'), {
    code: 'outbound_forbidden',
  })
  await assert.rejects(resolve({ SVC_SSH_HOST: '::' }, 'localhost'), { code: 'outbound_forbidden' })
  const off = { SVC_SSH_HOST: '::', SVC_SSH_PORT: 'off' }
  for (const address of await resolve(off, 'localhost')) assert.match(address, own)
  const listed = { SVC_HOST: '0.0.0.0', SVC_OUTBOUND_ALLOW: 'localhost' }
  for (const address of await resolve(listed, 'localhost')) assert.match(address, own)
  await assert.rejects(resolve({ SVC_OUTBOUND_ALLOW: 'external' }, '127.0.0.1'), {
    code: 'outbound_forbidden',
  })
  // RFC 2606: no name server knows it.
  await assert.rejects(resolve({}, 'nowhere.invalid'), { code: 'outbound_unresolved' })
})
