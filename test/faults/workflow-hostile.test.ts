// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { assertRecovered, type HostileSite, startHostileSite } from '../support/hostile-site.ts'
import { processesNaming } from '../support/processes.ts'
import { without } from '../support/programs.ts'

const options = { skip: without('bubblewrap'), timeout: 600_000 }

let site: HostileSite

before(async () => {
  if (options.skip) return
  site = await startHostileSite({
    SVC_STEP_MEMORY_MAX: '128MiB',
    SVC_STEP_PROCESSES: '64',
    SVC_STEP_FILE_MAX: '16MiB',
    SVC_STEP_OUTPUT_MAX: '64KiB',
  })
})

after(() => site?.[Symbol.asyncDispose]())

/** How a step ends that does something bad. */
type Case = {
  run: string
  minutes?: string
  conclusion: 'success' | 'failure' | 'timed_out'
  exitCode: number | null
  fault?: RegExp
  output?: RegExp
}

const short = '0.02'
const tookTooLong = { conclusion: 'timed_out', exitCode: null } as const

const cases: Record<string, Case> = {
  'sleeps for ever': {
    run: 'echo begun; sleep 4715001',
    minutes: short,
    ...tookTooLong,
    fault: /^The step exceeded its time limit of 1\.2 seconds\.$/,
    output: /^begun\n$/,
  },
  'sleeps for longer than an expression lets it': {
    run: 'sleep 4715001',
    minutes: "${{ fromJSON('0.01') }}",
    ...tookTooLong,
    fault: /^The step exceeded its time limit of 0\.6 seconds\.$/,
  },
  'ignores all signals that can be ignored': {
    run: 'trap "" TERM INT HUP QUIT; echo begun; while :; do sleep 4715001; done',
    minutes: short,
    ...tookTooLong,
  },
  'stops itself': { run: 'kill -STOP $$; echo woken', minutes: short, ...tookTooLong },
  'stops all of its workspace': {
    run: 'sleep 4715001 & kill -STOP -1; wait',
    minutes: short,
    ...tookTooLong,
  },
  'is a fork bomb': {
    run: ':(){ :|:& };: 2>/dev/null; sleep 4715001',
    minutes: short,
    ...tookTooLong,
  },
  'takes more memory than it may': {
    run: 'for n in 1 2 3 4 5 6; do perl -e \'$n = 30_000_000; $x = "x" x $n; sleep 4715001\' & done; wait',
    conclusion: 'failure',
    exitCode: null,
    fault: /^The step exceeded its memory limit of 128 MiB\.$/,
  },
  'takes more memory than one process may': {
    run: `perl -e '$n = 400_000_000; $x = "x" x $n'`,
    conclusion: 'failure',
    exitCode: 1,
    output: /Out of memory/i,
  },
  'writes a file without end': {
    run: 'cat /dev/zero >huge',
    conclusion: 'failure',
    exitCode: 153,
  },
  'leaves processes in the background': {
    run: '(setsid sleep 4715001 &); (trap "" TERM HUP; sleep 4715001) & nohup sleep 4715001 & echo done',
    conclusion: 'success',
    exitCode: 0,
    output: /^done\n$/,
  },
  'closes its output': {
    run: 'echo before; exec >&- 2>&-; sleep 0.2; (echo after) || exit 5',
    conclusion: 'failure',
    exitCode: 5,
    output: /^before\n$/,
  },
  'deletes its own workspace, and all else': {
    run: 'cd /; rm -rf "$GITHUB_WORKSPACE" "$HOME" /svc /tmp /usr/bin 2>/dev/null || echo done',
    conclusion: 'success',
    exitCode: 0,
    output: /^done\n$/,
  },
  'locks its own folders': {
    run: 'mkdir -p a/b; touch a/b/c; chmod 000 a/b a . ~ /tmp /svc; echo done',
    conclusion: 'success',
    exitCode: 0,
    output: /^done\n$/,
  },
  'kills all that it can': {
    run: 'sleep 4715001 & kill -9 -1; kill -9 1; echo alive',
    conclusion: 'success',
    exitCode: 0,
    output: /^alive\n/,
  },
  'kills itself': { run: 'kill -9 $$', conclusion: 'failure', exitCode: 137 },
  crashes: { run: 'kill -SEGV $$', conclusion: 'failure', exitCode: 139 },
}

test('a step with endless hashing fails, and does not delay others', options, async () => {
  const calls = Array.from({ length: 300 }, (_, index) => `\${{ hashFiles('big', '${index}') }}`)
  const text = `steps:\n  - run: head -c 15000000 /dev/zero >big\n  - run: echo ${calls.join('')}\n`
  const { run } = await site.attack('hashes', text)
  const [first, second] = run.result.steps
  assert.deepEqual([first.conclusion, second.conclusion], ['success', 'failure'])
  assert.match(
    second.fault,
    /^\.svc\/workflows\/ci\.yml:3:\d+: hashFiles failed: there is too much to read\.$/,
  )
  await assertRecovered(site)
})

describe('a step', options, () => {
  for (const [what, { run: script, minutes = '10', ...expected }] of Object.entries(cases)) {
    test(`that ${what} has the right conclusion, and leaves nothing`, async () => {
      const run = script.replace(/^/gm, '      ')
      const text = `steps:\n  - run: |\n${run}\n    timeout-minutes: ${minutes}\n`
      const { run: shown, step, log } = await site.attack(nameOf(what), text)
      const { conclusion, exitCode } = step
      assert.deepEqual(
        { conclusion, exitCode },
        { conclusion: expected.conclusion, exitCode: expected.exitCode },
        log,
      )
      assert.equal(shown.conclusion, expected.conclusion)
      if (expected.fault) assert.match(step.fault, expected.fault)
      if (expected.output) assert.match(step.output, expected.output)
      assert.deepEqual(processesNaming('4715001'), [])
      await assertRecovered(site)
    })
  }
})

function nameOf(what: string): string {
  return what.replaceAll(/[^a-z]+/g, '-')
}
