import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  availability,
  type WorkflowKey,
} from '#actions/workflow-parser/expressions/workflow-keys.ts'
import { type ClientHome, loggedIn } from '../support/client-home.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startService } from '../support/service.ts'
import { commitFiles, startPushSite } from '../support/waiting-push.ts'
import { type Files, pushFiles, runToEnd } from '../support/workflow-site.ts'

let service: Service
let admin: Client
let pages: PageClient
let home: ClientHome

before(async () => {
  service = await startService({ env: { SVC_RUNNER: 'on' } })
  admin = service.admin
  pages = await logIn(service.url, service.adminToken)
  home = await loggedIn(service)
})

after(async () => {
  await home[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const options = { skip: without('bubblewrap'), timeout: 300_000 }

// Its value is not JSON, which is known only when it is evaluated.
const bad = "fromJSON(format('{0}', github.ref))"
const wrong = `\${{ ${bad} }}`
const callee = '.github/workflows/called.yml'

/** A workflow of one job, with these lines at the job and at its step. */
const jobWith = (job: string, step = 'run: echo hello') =>
  `on: push\njobs:\n  broken:\n${indented(job, 4)}    steps:\n      - id: only\n${indented(step, 8)}`

const indented = (text: string, by: number) =>
  text.replace(/^(?=.)/gm, ' '.repeat(by)).replace(/\n?$/, text === '' ? '' : '\n')

/** The job that calls a workflow. */
const calling = (lines = '') => ({
  '.svc/workflows/x.yml': `on: push\njobs:\n  broken:\n    uses: ./${callee}\n${indented(lines, 4)}`,
})

const called = (call: string) => ({
  [callee]: `on:\n  workflow_call:\n${indented(call, 4)}jobs: { inner: { steps: [{ run: 'true' }] } }\n`,
})

const withAction = (action: string, step = 'uses: ./action') => ({
  ...one(jobWith('', step)),
  'action/action.yml': action,
})

const composite = (step: string, more = '') =>
  `${more}runs:\n  using: composite\n  steps:\n    - shell: bash\n      run: echo inner\n${indented(step, 6)}`

const one = (text: string): Files => ({ '.svc/workflows/x.yml': text })

/** For each key with expressions, files whose run fails because the value of that key cannot be evaluated. */
const wrongValues: Record<WorkflowKey, Files | 'refused'> = {
  'run-name': 'refused', // No run begins: every start is refused with the fault.
  concurrency: 'refused',
  env: one(`env: { A: "${wrong}" }\n${jobWith('')}`),
  'job.if': one(jobWith(`if: ${bad}`)),
  'job.name': one(jobWith(`name: ${wrong}`)),
  'job.strategy': one(jobWith(`strategy: { matrix: { a: "${wrong}" } }`)),
  'job.env': one(jobWith(`env: { A: "${wrong}" }`)),
  'job.outputs': one(jobWith(`outputs: { a: "${wrong}" }`)),
  'job.runs-on': one(jobWith(`runs-on: ${wrong}`)),
  'job.container': one(jobWith(`container: ${wrong}`)),
  'job.timeout-minutes': one(jobWith(`timeout-minutes: ${wrong}`)),
  'job.continue-on-error': one(jobWith(`continue-on-error: ${wrong}`)),
  'job.defaults': one(jobWith(`defaults: { run: { working-directory: "${wrong}" } }`)),
  'job.with': {
    ...calling(`with: { a: "${wrong}" }`),
    ...called('inputs: { a: { type: string } }'),
  },
  'job.secrets': { ...calling(`secrets: { A: "${wrong}" }`), ...called('secrets: { A: {} }') },
  'call.input-default': {
    ...calling(),
    ...called(`inputs: { a: { type: string, default: "${wrong}" } }`),
  },
  'call.output': { ...calling(), ...called(`outputs: { a: { value: "${wrong}" } }`) },
  'step.if': one(jobWith('', `if: ${bad}\nrun: 'true'`)),
  'step.env': one(jobWith('', `env: { A: "${wrong}" }\nrun: 'true'`)),
  'step.name': one(jobWith('', `name: "${wrong}"\nrun: 'true'`)),
  'step.run': one(jobWith('', `run: echo ${wrong}`)),
  'step.with': withAction(
    composite('', 'inputs: { a: {} }\n'),
    `uses: ./action\nwith: { a: "${wrong}" }`,
  ),
  'step.shell': one(jobWith('', `shell: "${wrong}"\nrun: 'true'`)),
  'step.working-directory': one(jobWith('', `working-directory: "${wrong}"\nrun: 'true'`)),
  'step.timeout-minutes': one(jobWith('', `timeout-minutes: ${wrong}\nrun: 'true'`)),
  'step.continue-on-error': one(jobWith('', `continue-on-error: ${wrong}\nrun: 'true'`)),
  'action.outputs': withAction(composite('', `outputs: { a: { value: "${wrong}" } }\n`)),
  'action.input-default': withAction(composite('', `inputs: { a: { default: "${wrong}" } }\n`)),
  'action.step': withAction(composite(`env: { A: "${wrong}" }`)),
  'action.step.if': withAction(composite(`if: ${bad}`)),
  'action.hook-if': {
    ...withAction(`runs: { using: node24, main: main.js, pre: main.js, pre-if: "${bad}" }\n`),
    'action/main.js': '',
  },
}

// GitHub reports these, too, where it evaluates them.
const notEvaluated: WorkflowKey[] = ['step.name']

type Case = { name: string; files: Files; why: RegExp; env?: Record<string, string> }

const cases: Case[] = [
  ...Object.entries(wrongValues).flatMap(([name, files]) =>
    files === 'refused' || notEvaluated.some((key) => key === name)
      ? []
      : [{ name: `the value of ${name}`, files, why: /fromJSON/ }],
  ),
  {
    name: 'a value of the matrix that one job lacks',
    files: one(
      jobWith('strategy: { matrix: { include: [{ a: 1 }] } }\ncontinue-on-error: ${{ matrix.e }}'),
    ),
    why: /neither true nor false/,
  },
  {
    name: 'a label that no runner has',
    files: one(jobWith('strategy: { matrix: { on: [gpu] } }\nruns-on: ${{ matrix.on }}')),
    why: /label gpu/,
  },
  {
    name: 'the time of a job',
    files: one(jobWith('timeout-minutes: 0.01', 'run: sleep 60')),
    why: /time limit/,
  },
  {
    name: 'the time of a step',
    files: one(jobWith('', 'timeout-minutes: 0.01\nrun: sleep 60')),
    why: /time limit/,
  },
  {
    name: 'the time of an action, over in a step that may fail',
    files: withAction(
      composite('continue-on-error: true').replace('echo inner', 'sleep 60'),
      'timeout-minutes: 0.01\nuses: ./action',
    ),
    why: /time limit/,
  },
  {
    name: 'outputs that are too large',
    files: one(
      jobWith(
        'outputs: { a: "${{ steps.only.outputs.a }}${{ steps.only.outputs.a }}" }',
        `run: printf 'a=%0200000d\\n' 1 >> "$GITHUB_OUTPUT"`,
      ),
    ),
    why: /outputs of the job exceed/,
  },
  {
    name: 'too many jobs',
    files: one(
      jobWith(
        "strategy: { matrix: { a: \"${{ fromJSON(format('[{0}1]', '1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,')) }}\", b: [1,2,3,4,5,6,7] } }",
      ),
    ),
    why: /256|matrix/i,
  },
]

test('every key with expressions has an example of a value that fails', () => {
  assert.deepEqual(Object.keys(wrongValues), Object.keys(availability))
})

describe(
  'a run that fails says why to a push that waits, in the API, on its page and in the terminal',
  options,
  () => {
    for (const [index, { name, files, why }] of cases.entries())
      test(`because of ${name}`, /value|time/.test(name) ? exhaustive : {}, async () => {
        await using site = await startPushSite(service, admin, `failing-${index}`)
        await commitFiles(site.project, files)
        const pushed = await site.push(['wait'], ['HEAD:main']).ended
        assert.notEqual(pushed.code, 0)
        assert.match(pushed.text, why)
        const [{ id, number }] = await site.runs()
        const run = (await admin.get(`/repos/${site.name}/workflows/${id}`)).body
        assert.match(run.conclusion, /failure|timed_out/)
        assert.match(run.failure.job, /^broken/)
        assert.match(run.failure.reason, why)
        const { text } = await pages.get(`/r/${site.name}/runs/${number}`)
        const [, digest = ''] = /id="run-digest"([\s\S]*?)id="run-timeline"/.exec(text) ?? []
        assert.match(digest, why)
        assert.match(await home.svc(['runs', 'show', site.name, String(number)]), why)
      })
  },
)

test('a job that may fail is not why a run failed', options, async () => {
  const text = `on: push
jobs:
  optional: { continue-on-error: true, steps: [{ name: Try, run: exit 3 }] }
  optional-label: { continue-on-error: true, strategy: { matrix: { on: [gpu] } }, runs-on: "\${{ matrix.on }}", steps: [{ run: exit 3 }] }
  needed: { needs: optional, steps: [{ name: Test, run: exit 4 }] }
`
  await pushFiles(admin, 'tolerant', one(text))
  const run = await runToEnd(admin, 'tolerant')
  const { job, step, exitCode } = run.failure
  assert.deepEqual([job, step, exitCode], ['needed', 'Test', 4])
  const page = await pages.get(`/r/tolerant/runs/${run.number}`)
  assert.match(page.text, /needed failed in Test/)
})
