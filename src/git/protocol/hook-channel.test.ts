import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { answerHook } from './hook-channel.ts'

const update = { ref: 'refs/heads/main', before: '1'.repeat(40), after: '2'.repeat(40) }
const line = `${update.before} ${update.after} ${update.ref}\n`
const done = { results: [{ ref: update.ref, refusal: undefined }], warnings: [], isDeclined: false }

/** What a hook has sent when it is killed, none of the server's lines read. */
const moments = {
  'before its question': '',
  'in the middle of its question': line,
  'after its question': `${line}\\0/quarantine\\0`,
}

for (const [when, sent] of Object.entries(moments)) {
  test(`a hook that is killed ${when} is no error`, async () => {
    const script = `printf '${sent}' >&3; echo sent; exec sleep 60`
    const child = spawn('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'inherit', 'pipe'] })
    const channel = child.stdio[3] as unknown as Duplex
    const errors: unknown[] = []
    channel.on('error', (error) => errors.push(error))
    // As the order that a process has not read yet.
    channel.write('unread\n')
    const authorized = Promise.withResolvers<void>()
    const answered = answerHook(channel, [update], async () => {
      authorized.resolve()
      return done
    })
    await once(child.stdout as NonNullable<typeof child.stdout>, 'data')
    if (sent.endsWith('0')) await authorized.promise
    // The answer is written after that.
    await setImmediate()
    child.kill('SIGKILL')
    await answered
    // Otherwise the channel was closed in order, and this test shows nothing.
    assert.match(String(errors[0]), /ECONNRESET/)
  })
}
