// Tags: exhaustive
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { without } from '../support/programs.ts'
import { startService } from '../support/service.ts'

const skip = without('strace')

test('a commit is acknowledged and seen when it is on the disk, and blocks no other request', {
  skip,
}, async () => {
  await using service = await startService()
  const { admin } = service
  const done: string[] = []
  const note = (name: string) => () => void done.push(name)
  await admin.get('/tokens')
  // A commit of its own, behind which the next one would wait.
  await until('the use of the token is recorded', () => {
    const [token] = tokensIn(service.dataDir)
    return typeof token?.last_used_at === 'number'
  })
  await using disk = await disturbDisk(service.pid, 'delay_enter=60s')
  const creating = admin.post('/tokens', { name: 'later' }).finally(note('created'))
  await until('it is committed', () => tokensIn(service.dataDir).length === 2)
  const listing = admin.get('/tokens').finally(note('listed'))
  const { status } = await fetch(`${service.url}/docs`)
  assert.equal(status, 200)
  assert.deepEqual(done, [])
  await disk.calm()
  assert.equal((await creating).status, 201)
  const { body } = await listing
  assert.ok(body.some(({ name }: { name: string }) => name === 'later'))
})

test('after a failed flush nothing is written until a restart', { skip }, async () => {
  await using service = await startService()
  const { admin } = service
  const create = async (name: string) => (await admin.post('/tokens', { name })).status
  await using disk = await disturbDisk(service.pid, 'error=EIO')
  assert.equal(await create('first'), 500)
  await disk.calm()
  assert.equal(await create('second'), 500)
  assert.match(service.log(), /svc\.db-wal cannot be flushed/)
})

/** Lets strace tamper with each fdatasync(2) of a process until it is calmed. */
async function disturbDisk(pid: number, how: string) {
  const inject = ['-e', 'trace=fdatasync', '-e', `inject=fdatasync:${how}`]
  const strace = spawn('strace', ['-f', '-p', String(pid), ...inject], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let output = ''
  strace.stderr.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  await until('strace is attached', () => /attached/.test(output))
  const calm = async () => {
    if (strace.exitCode !== null || strace.signalCode !== null) return
    strace.kill('SIGKILL')
    await once(strace, 'exit')
  }
  return { calm, [Symbol.asyncDispose]: calm }
}

/** The tokens, as another process reads them. */
function tokensIn(dataDir: string): Record<string, unknown>[] {
  using database = new DatabaseSync(join(dataDir, 'svc.db'), { readOnly: true })
  return database.prepare('select * from tokens').all()
}
