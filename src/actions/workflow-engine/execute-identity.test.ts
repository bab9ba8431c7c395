import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'
import { without } from '../../../test/support/programs.ts'

const options = { skip: without('bubblewrap') }
const file = '.svc/workflows/ci.yml'
const url = 'http://svc.test/id-token?api-version=2.0'
const [first, second, requester] = ['first', 'second', 'requester'].map(
  (word) => `svcrun_${word}-0123456789abcdef`,
) as [string, string, string]
const reading = { contents: 'read', actions: 'none', idToken: false } as const
const nothing = { contents: 'none', actions: 'none', idToken: false } as const
const deploying = { contents: 'none', actions: 'none', idToken: true } as const
const identities = [
  { file, jobFile: file, permissions: reading, token: first, idTokens: null },
  {
    file,
    jobFile: file,
    permissions: deploying,
    token: second,
    idTokens: { url, token: requester },
  },
]

let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

// Reversed, a token is not masked.
const reversed = (text: string) => [...text].reverse().join('')

const show = `
      - name: show
        env: { OF_STEP: '\${{ secrets.GITHUB_TOKEN }}' }
        run: |
          echo "of file: $(echo "$OF_FILE" | rev)"; echo "of step: $(echo "$OF_STEP" | rev)"
          echo "request: $ACTIONS_ID_TOKEN_REQUEST_URL $(echo "$ACTIONS_ID_TOKEN_REQUEST_TOKEN" | rev)"
          echo "variable: $GITHUB_TOKEN"`

test(
  'each job has its own credentials, which are no variables but for ID tokens',
  options,
  async () => {
    const result = await engine.run({
      workflows: `
on: push
secrets: []
env: { OF_FILE: '\${{ github.token }}' }
jobs:
  one:
    runs-on: ubuntu-latest
    steps:${show}
  two:
    needs: one
    permissions: { id-token: write }
    runs-on: ubuntu-latest
    steps:${show}
  four:
    permissions: write-all
    runs-on: ubuntu-latest
    steps:${show}
`,
      plan: { identities },
    })
    assert.equal(result.conclusion, 'success', result.log)
    assert.deepEqual(
      result.steps.map(({ output }) => output),
      [
        `of file: ${reversed(first)}\nof step: ${reversed(first)}\nrequest:  \nvariable: \n`,
        `of file: ${reversed(second)}\nof step: ${reversed(second)}\nrequest: ${url} ${reversed(requester)}\nvariable: \n`,
        'of file: \nof step: \nrequest:  \nvariable: \n',
      ],
    )
  },
)

test('credentials of all jobs are masked in all that a run reports', options, async () => {
  const result = await engine.run({
    workflows: `
on: push
permissions: { id-token: write }
jobs:
  two:
    runs-on: ubuntu-latest
    outputs: { token: '\${{ steps.give.outputs.token }}' }
    steps:
      - id: give
        name: with \${{ github.token }}
        run: |
          echo "\${{ github.token }} $ACTIONS_ID_TOKEN_REQUEST_TOKEN ${first}"
          printf %s "\${{ secrets.GITHUB_TOKEN }}" | base64 -w 0; echo
          echo '\${{ toJSON(github) }}'
          echo "token=\${{ github.token }}" >>"$GITHUB_OUTPUT"
          echo "\${{ github.token }}" >>"$GITHUB_STEP_SUMMARY"
`,
    plan: { identities },
  })
  const everything = JSON.stringify(result.entries)
  for (const token of [first, second, requester]) {
    assert.ok(!everything.includes(token))
    assert.ok(!everything.includes(Buffer.from(token).toString('base64').slice(0, 30)))
  }
  assert.match(result.log, /\*\*\* \*\*\* \*\*\*\n/)
  assert.deepEqual(result.jobs[0]?.outputs, {})
})

test('a step cannot replace the address of ID tokens for the next one', options, async () => {
  const result = await engine.run({
    workflows: `
on: push
permissions: { id-token: write }
jobs:
  two:
    runs-on: ubuntu-latest
    steps:
      - run: echo "ACTIONS_ID_TOKEN_REQUEST_URL=http://elsewhere.test/" >>"$GITHUB_ENV"
      - name: next
        env: { ACTIONS_ID_TOKEN_REQUEST_URL: http://elsewhere.test/ }
        run: echo "$ACTIONS_ID_TOKEN_REQUEST_URL"
`,
    plan: { identities },
  })
  assert.equal(result.outputOf('next'), `${url}\n`)
  assert.match(result.log, /ACTIONS_ID_TOKEN_REQUEST_URL cannot be changed/)
})

test('a called workflow has the token of its caller, or one with less', options, async () => {
  const called = '.svc/workflows/called.yml'
  const tokens = ['callee-reads', 'callee-has-none'].map((word) => `svcrun_${word}-0123456789`)
  const result = await engine.run({
    workflows: {
      'ci.yml': `
on: push
jobs:
  call:
    uses: ./${called}
    secrets: { passed: '\${{ secrets.GITHUB_TOKEN }}' }
`,
    },
    plan: {
      identities: [
        ...identities,
        ...[reading, nothing].map((permissions, index) => ({
          file,
          jobFile: called,
          permissions,
          token: tokens[index] ?? '',
          idTokens: null,
        })),
      ],
      called: [
        {
          path: called,
          text: `
on: { workflow_call: { secrets: { passed: { required: true } } } }
jobs:
  same:
    runs-on: ubuntu-latest
    steps: [{ name: same, run: 'echo "\${{ github.token }} \${{ secrets.passed }}" | rev' }]
  more:
    permissions: write-all
    runs-on: ubuntu-latest
    steps: [{ name: more, run: 'echo "\${{ github.token }}" | rev' }]
  less:
    permissions: {}
    runs-on: ubuntu-latest
    steps: [{ name: less, run: 'echo "\${{ secrets.GITHUB_TOKEN }}" | rev' }]
`,
        },
      ],
    },
  })
  assert.equal(result.conclusion, 'success', result.log)
  const outputs = ['same', 'more', 'less'].map((name) => result.outputOf(name))
  const [reads = '', none = ''] = tokens
  assert.deepEqual(outputs, [
    `${reversed(`${reads} ${first}`)}\n`,
    // What it asks for beyond its caller is not granted.
    `${reversed(reads)}\n`,
    `${reversed(none)}\n`,
  ])
})
