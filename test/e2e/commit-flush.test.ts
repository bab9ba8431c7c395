// Tags: exhaustive
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../support/condition.ts'
import { without } from '../support/programs.ts'
import { startService } from '../support/service.ts'

const skip = without('strace')

test('a commit is acknowledged and seen when it is on the disk, and blocks no other request', {
  skip,
}, async () => {
  await using service = await startService()
  const { admin } = service
  const waiting = await until('a commit waits for its flush', async () => {
    const disk = await disturbDisk(service.pid, 'delay_enter=60s')
    const done: string[] = []
    const creating = admin.post('/tokens', { name: 'later' }).finally(() => done.push('created'))
    if (await isCommitted(service.dataDir)) return { disk, done, creating }
    // The flush that waits is of a commit that the server made in the background.
    await disk.calm()
    const { body } = await creating
    await admin.delete(`/tokens/${body.id}`)
  })
  await using disk = waiting.disk
  const { done, creating } = waiting
  const listing = admin.get('/tokens').finally(() => done.push('listed'))
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

/** Whether the token comes to be seen by another process before something else has held it up. */
async function isCommitted(dataDir: string): Promise<boolean> {
  using database = new DatabaseSync(join(dataDir, 'svc.db'), { readOnly: true })
  const tokens = database.prepare("select * from tokens where name = 'later'")
  for (let looks = 0; looks < 100; looks++) {
    if (tokens.all().length > 0) return true
    await sleep(20)
  }
  return false
}
