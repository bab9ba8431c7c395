import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Problem } from '#base/problem.ts'
import { exhaustive } from '../../../test/support/exhaustive.ts'
import { type Authorize, answerHook } from './hook-channel.ts'

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

const preReceive = fileURLToPath(new URL('../process/hooks/pre-receive', import.meta.url))
const bytes = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte))
const every = [...bytes, '\r\n', '\u2028', '\u2029', '\u202e']
// Each is a process: the quick tests have those with a meaning to the shell, the protocol or a terminal.
const usual = ['\0', '\n', '\r', '\r\n', ' ', '\\', '\x1b', '\x9b', '\u2028', '\u202e']

/** Runs the hook of a push; how it ended, and what the client sees. */
async function runHook(authorize: Authorize, env: Record<string, string> = {}) {
  const child = spawn(preReceive, { env, stdio: ['pipe', 'ignore', 'pipe', 'pipe'] })
  child.stdin?.end(line)
  const [shown, [code]] = await Promise.all([
    text(child.stderr as NonNullable<typeof child.stderr>),
    once(child, 'exit'),
    answerHook(child.stdio[3] as unknown as Duplex, [update], authorize),
  ])
  return { code, shown }
}

for (const [what, delimiters, suite] of [
  ['usual delimiter', usual, {}],
  ['byte', every, exhaustive],
] as const) {
  test(
    `no ${what} in a refusal or a warning is taken for a decision, or controls a terminal`,
    suite,
    async () => {
      for (const delimiter of delimiters) {
        const hostile = `a${delimiter}ok${delimiter}no${delimiter}! b`
        const refused = await runHook(async () => {
          throw new Problem('ref_name_refused', hostile)
        })
        const accepted = await runHook(async () => ({ warnings: [hostile], isDeclined: false }))
        assert.deepEqual([refused.code, accepted.code], [1, 0], JSON.stringify(delimiter))
        for (const { shown } of [refused, accepted])
          assert.doesNotMatch(shown, /[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]/)
      }
    },
  )

  test(`no ${what} in the environment of a push changes what its hook sends`, suite, async () => {
    const given = delimiters.filter((delimiter) => delimiter !== '\0')
    for (const delimiter of given) {
      const option = `x${delimiter}${line}${delimiter}ok`
      const isInPath = delimiter !== '\n' && delimiter !== '\r\n'
      const quarantine = `/q${isInPath ? delimiter : ''}/ok`
      let seen: unknown
      const { code } = await runHook(
        async (updates, directory) => {
          seen = [updates, directory]
          return undefined
        },
        {
          GIT_QUARANTINE_PATH: quarantine,
          GIT_PUSH_OPTION_COUNT: '1',
          GIT_PUSH_OPTION_0: option,
        },
      )
      assert.equal(code, 0)
      assert.deepEqual(seen, [[update], quarantine], JSON.stringify(delimiter))
    }
  })
}
