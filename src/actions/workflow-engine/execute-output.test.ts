import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'

let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

const entryMaxBytes = 64 * 1024

test('the head and the tail of a large output are reported, in whole lines', async () => {
  const result = await engine.run({
    plan: { limits: { runTimeoutMs: 60_000, stepTimeoutMs: 60_000, outputMaxBytes: 40_000 } },
    workflows: 'steps:\n  - { name: much, run: seq 1 3000000 }\n',
  })
  assert.equal(result.conclusion, 'success', result.log)
  const output = result.outputOf('much')
  assert.match(output, /^1\n2\n3\n/)
  assert.match(output, /\n2999999\n3000000\n$/)
  const all = 22_888_896
  const [note = '', leftOut = ''] = /… (\d+) bytes omitted …\n/.exec(output) ?? []
  const kept = Buffer.byteLength(output) - Buffer.byteLength(note)
  // A line that was cut has got an end.
  assert.ok(Math.abs(kept + Number(leftOut) - all) <= 1)
  assert.ok(kept <= 40_001, `${kept} bytes were kept`)
})

test('invalid bytes and endless lines are reported as text, in pieces', async () => {
  const result = await engine.run({
    workflows: `
steps:
  - { name: bytes, run: "printf 'a\\\\0b\\\\377c'" }
  - { name: long, run: "head -c 200000 /dev/zero | tr '\\\\0' x" }
  - { name: wide, run: "head -c 100000 /dev/zero" }
  - { name: letters, run: "printf 'ä%.0s' $(seq 50000)" }
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.equal(result.outputOf('bytes'), 'a\u{fffd}b\u{fffd}c\n')
  assert.equal(result.outputOf('long').replaceAll('\n', ''), 'x'.repeat(200_000))
  assert.equal(result.outputOf('wide').replaceAll('\n', ''), '\u{fffd}'.repeat(100_000))
  assert.equal(result.outputOf('letters').replaceAll('\n', ''), 'ä'.repeat(50_000))
  for (const entry of result.entries) {
    if (entry.kind !== 'output') continue
    assert.ok(Buffer.byteLength(entry.text) <= entryMaxBytes)
    assert.ok(entry.text.endsWith('\n'))
  }
})

test('a line is reported while its step still runs', async () => {
  const seen = Promise.withResolvers<void>()
  const cancel = new AbortController()
  const running = engine.run({
    signal: cancel.signal,
    onEntry(entry) {
      if (entry.kind === 'output') seen.resolve()
    },
    workflows: 'steps:\n  - run: echo early; sleep 100\n',
  })
  await seen.promise
  cancel.abort('Seen.')
  const result = await running
  assert.match(result.log, /early\n/)
})

test('the output of a step waits for the report', async () => {
  let held = 0
  let release = () => {}
  const result = await engine.run({
    plan: { limits: { runTimeoutMs: 60_000, stepTimeoutMs: 60_000, outputMaxBytes: 8_000_000 } },
    async onEntry(entry) {
      if (entry.kind !== 'output') return
      assert.equal(held, 0, 'one after the other')
      held++
      await new Promise<void>((resolve) => {
        release = resolve
        setImmediate(() => release())
      })
      held--
    },
    workflows: 'steps:\n  - { name: much, run: seq 1 500000 }\n',
  })
  assert.equal(result.conclusion, 'success')
  assert.equal(result.outputOf('much').split('\n').length, 500_001)
})

test('a secret is reported nowhere: not in output, names, faults, summaries, outputs or matrices', async () => {
  const secret = 'hunter2-hunter2'
  const result = await engine.run({
    plan: {
      secrets: { PASSWORD: secret, LINES: 'first-line-x\nsecond-line-y' },
      inputs: { word: secret },
      actor: secret,
    },
    workflows: `
on: push
jobs:
  a:
    name: job \${{ github.actor }}
    runs-on: ubuntu-latest
    strategy: { matrix: { who: ["\${{ github.actor }}"] } }
    outputs: { leaked: "\${{ steps.s.outputs.leaked }}", fine: "\${{ steps.s.outputs.fine }}" }
    steps:
      - name: show \${{ github.actor }}
        id: s
        run: |
          echo "$PASSWORD"
          printf 'hunter2-'; printf 'hunter2\\n'
          printf %s "$PASSWORD" | base64
          echo second-line-y
          echo "# $PASSWORD" >> "$GITHUB_STEP_SUMMARY"
          echo "leaked=x$PASSWORD" >> "$GITHUB_OUTPUT"
          echo fine=1 >> "$GITHUB_OUTPUT"
          echo "word $PASSWORD" > word; echo "::add-mask::later-secret"; echo later-secret
      - name: bad
        run: echo "$PASSWORD" >> "$GITHUB_ENV"
      - name: nowhere
        if: always()
        working-directory: \${{ secrets.PASSWORD }}
        run: true
  b:
    needs: a
    if: always()
    runs-on: ubuntu-latest
    steps: [{ name: b, run: 'echo "[\${{ needs.a.outputs.leaked }}][\${{ needs.a.outputs.fine }}]"' }]
`,
  })
  const text = JSON.stringify(result.entries)
  for (const part of [
    secret,
    'first-line',
    'second-line',
    'later-secret',
    Buffer.from(secret).toString('base64').slice(0, -2),
  ]) {
    assert.equal(text.includes(part), false, part)
  }
  assert.equal(result.outputOf('b'), '[][1]\n', result.log)
  assert.match(result.ownWords, /the output leaked is omitted/)
})

test("secrets are variables, limited by the workflow's list", async () => {
  const result = await engine.run({
    plan: { secrets: { A: 'value-of-a', B: 'value-of-b', PATH: '/nowhere', GITHUB_SHA: 'wrong' } },
    workflows: `
secrets: [A, PATH, GITHUB_SHA]
on: push
jobs:
  a:
    runs-on: ubuntu-latest
    steps:
      - { name: show, run: 'echo "\${#A} \${#B} \${#GITHUB_SHA} [\${{ secrets.B }}]"' }
`,
  })
  assert.equal(result.outputOf('show'), '10 0 40 []\n', result.log)
})

test('a step has the secrets that its file names, and no others', async () => {
  const secrets = { NAMED: 'named-1', Lower: 'lower-1', AWK: 'awk-1', MAKEFLAGS: 'make-1' }
  const show = '{ name: show, run: \'env | grep -o "^[^=]*=[a-z]*-1$" | sort\' }'
  const run = async (head: string, note = '') => {
    const workflows = `${head}on: push\njobs: { a: { runs-on: ubuntu-latest, steps: [${show}] } }\n${note}`
    const result = await engine.run({ plan: { secrets }, workflows })
    return result.outputOf('show').replaceAll(/=.*/g, '').split('\n').filter(Boolean)
  }
  assert.deepEqual(await run(''), [])
  assert.deepEqual(await run('', '# NAMED\n'), ['NAMED'])
  assert.deepEqual(await run('', '# $NAMED_2 MAKEFLAGS_ awk\n'), [])
  assert.deepEqual(await run('secrets: [AWK]\n', '# NAMED\n'), ['AWK'])
  assert.deepEqual(await run('secrets: []\n', '# NAMED\n'), [])
  assert.deepEqual(await run('secrets: inherit\n'), ['AWK', 'Lower', 'MAKEFLAGS', 'NAMED'])
})

test('unsupported commands are explained once', async () => {
  const result = await engine.run({
    workflows: `
steps:
  - { name: old, run: 'echo "::set-output name=a::1"; echo "::set-output name=b::2"; echo "::group::x"' }
`,
  })
  const output = result.outputOf('old')
  assert.match(output, /name=a::1\n::set-output:: is not supported; .*GITHUB_OUTPUT/)
  assert.equal(output.match(/is not supported/g)?.length, 1)
  assert.match(output, /\n::group::x\n$/)
})
