import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { parseListedHosts } from '#base/outbound/listed-hosts.ts'
import { type Engine, startEngine } from '../../../test/support/engine.ts'
import { without } from '../../../test/support/programs.ts'

const options = { skip: without('bubblewrap') || without('curl'), timeout: 60_000 }
const server = createServer((_request, response) => response.end('of the host\n'))
let port = 0
let engine: Engine

before(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is neither null nor a path once it listens.
  port = (server.address() as AddressInfo).port
  if (options.skip) return
  const hosts = parseListedHosts(`localhost:${port}, ${secretHost}, loopback`)
  engine = await startEngine({ hosts })
})

after(async () => {
  server.close()
  server.closeAllConnections()
  await engine?.[Symbol.asyncDispose]()
})

// The step's own loopback is no host to ask the proxy for, but these are on the loopback of the machine.
const curl = () =>
  `curl -sS -o got -w '%{http_code}\\n' --noproxy '' http://localhost:${port}/; cat got`
const secretHost = 'host-4715002.example'

test(
  'a workflow without `network` has the hosts of the runner, and the log of its steps says so',
  options,
  async () => {
    const { steps } = await engine.run({ workflows: `steps:\n  - run: |\n      ${curl()}\n` })
    assert.equal(
      steps[0]?.output,
      `Network: localhost:${port}, ${secretHost}, through a proxy.\n` +
        `network: localhost:${port} allowed\n200\nof the host\n`,
    )
  },
)

test(
  'the log of a step that reads several files says once which hosts it has',
  options,
  async () => {
    const { steps } = await engine.run({
      workflows: 'network: none\nsteps: [{ uses: denoland/setup-deno@v2 }]\n',
    })
    const lines = steps[0]?.output.match(/^Network: .*$/gm)
    assert.deepEqual(lines, ['Network: none, as the workflow says.'])
  },
)

test(
  'a job narrows the network, `none` included, and overrides the workflow',
  options,
  async () => {
    const step = `steps: [{ run: "${curl().replaceAll('\\', '\\\\')}" }]`
    const { steps } = await engine.run({
      workflows: `
network: none
jobs:
  none: { ${step} }
  listed: { network: ['localhost:${port}', evil.example], ${step} }
  other: { network: ${secretHost}, ${step} }
`,
    })
    const outputs = steps.map(({ output }) => output)
    assert.match(outputs[0] ?? '', /^Network: none, as the workflow says\.\n.*\n000\n/)
    assert.equal(
      outputs[1],
      `Network: localhost:${port}, through a proxy. SVC_STEP_HOSTS of the runner does not allow evil.example.\n` +
        `network: localhost:${port} allowed\n200\nof the host\n`,
    )
    assert.match(
      outputs[2] ?? '',
      /\nnetwork: localhost:\d+ refused: The network of this step does not include it\.\n/,
    )
  },
)

test(
  'lines about connections are whole, masked, and separate no parts of a secret',
  options,
  async () => {
    const secrets = { HOST: secretHost, LINES: 'first-half-4715\nsecond-half-4716' }
    const script = [
      'printf %s "begun "',
      `curl -s -o /dev/null --noproxy '' http://${secretHost}/ || true`,
      'echo ended',
      `printf 'x%s\\n' "$(echo "$LINES" | head -n 1)"`,
      `curl -s -o /dev/null --noproxy '' http://localhost:${port}/`,
      'echo "$LINES" | tail -n 1',
    ]
    const { steps } = await engine.run({
      plan: { secrets },
      workflows: `steps:\n  - run: |\n${script.map((line) => `      ${line}\n`).join('')}`,
    })
    const output = steps[0]?.output ?? ''
    assert.match(output, /\nnetwork: \*\*\*:80 failed: The host "\*\*\*" is unknown/)
    assert.match(output, /\nbegun ended\n/)
    assert.ok(!/4715|4716/.test(output), output)
    assert.equal(output.split('\n').filter((line) => line.startsWith('network: ')).length, 2)
  },
)

test('a called workflow has no more network than its caller', options, async () => {
  const callee = (network: string) =>
    `${network}\non: workflow_call\njobs: { a: { steps: [{ name: inner, run: 'true' }] } }\n`
  const { log, outputOf } = await engine.run({
    workflows: {
      'ci.yml': `
jobs:
  none: { network: none, uses: ./.svc/workflows/all.yml }
  less: { network: [${secretHost}, other.example], uses: ./.svc/workflows/some.yml }
`,
    },
    plan: {
      called: [
        { path: '.svc/workflows/all.yml', text: callee("network: '*'") },
        { path: '.svc/workflows/some.yml', text: callee(`network: '*.example'`) },
      ],
    },
  })
  const lines = outputOf('inner')
    .split('\n')
    .filter((line) => line !== '')
  assert.deepEqual(
    lines.sort(),
    [
      `Network: ${secretHost}, through a proxy. SVC_STEP_HOSTS of the runner does not allow other.example.`,
      'Network: none, as the workflow says.',
    ],
    log,
  )
})

test('variables of the workflow override the proxy, and secrets do not', options, async () => {
  const secrets = { HTTP_PROXY: 'http://of-the-secret', LINES: 'x' }
  const { steps } = await engine.run({
    plan: { secrets },
    workflows: `
steps:
  - run: 'echo "$HTTPS_PROXY $https_proxy $HTTP_PROXY $NO_PROXY $NODE_USE_ENV_PROXY"'
    env: { https_proxy: own }
`,
  })
  const [, variables] = steps[0]?.output.split('\n') ?? []
  const proxy = 'http://127.0.0.1:3128'
  assert.equal(variables, `${proxy} own ${proxy} localhost,127.0.0.1,::1,svc 1`)
})

test('with the whole network, a list of hosts is reached through the proxy', options, async () => {
  await using open = await startEngine({ network: 'full' })
  const { steps } = await open.run({
    workflows: `
jobs:
  none: { network: none, steps: [{ run: 'tail -n +2 /proc/net/route; echo "[$HTTP_PROXY]"' }] }
  some: { network: [a.example], steps: [{ run: 'tail -n +2 /proc/net/route; echo "[$HTTP_PROXY]"' }] }
  all: { steps: [{ run: 'echo "[$HTTP_PROXY]"' }] }
`,
  })
  assert.deepEqual(
    steps.map(({ output }) => output),
    [
      'Network: none, as the workflow says.\n[]\n',
      'Network: a.example, through a proxy.\n[http://127.0.0.1:3128]\n',
      '[]\n',
    ],
  )
})

test('a step that fails without a network says what allows a host', options, async () => {
  await using without = await startEngine()
  const faultOf = async (text: string, of = without) => {
    const { steps } = await of.run({ workflows: text })
    return steps[0]?.fault
  }
  const step = (run: string) => `steps: [{ run: ${JSON.stringify(run)} }]\n`
  const unresolved = "echo 'curl: (6) Could not resolve host: example.com' >&2; exit 6"
  assert.match(
    (await faultOf(step(unresolved))) ?? '',
    /^The step has no network: .*SVC_STEP_HOSTS/,
  )
  assert.match(
    (await faultOf(`network: none\n${step(unresolved)}`)) ?? '',
    /^The workflow gives the step no network: .*"network"/,
  )
  assert.match(
    (await faultOf(step('python3 -c "import socket; socket.getaddrinfo(\'example.com\', 1)"'))) ??
      '',
    /SVC_STEP_HOSTS/,
  )
  assert.equal(await faultOf(step('exit 6')), '')
  assert.equal(await faultOf(step(`${unresolved.replace('exit 6', 'exit 0')}`)), '')
  assert.equal(await faultOf(step(unresolved), engine), '')
})
