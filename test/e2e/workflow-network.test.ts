import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertRecovered, type HostileSite, startHostileSite } from '../support/hostile-site.ts'
import { without } from '../support/programs.ts'

const options = { skip: without('bubblewrap') || without('curl'), timeout: 600_000 }

let site: HostileSite

before(async () => {
  if (!options.skip) site = await startHostileSite({ SVC_STEP_HOSTS: '*', SVC_SSH_PORT: '0' })
})

after(() => site?.[Symbol.asyncDispose]())

test(
  'a step that may reach every host reaches neither the server nor other inner addresses',
  options,
  async () => {
    const { port } = new URL(site.service().url)
    const addresses = [
      ...['127.0.0.1', 'localhost', '0.0.0.0', '2130706433', '[::1]', '[::ffff:127.0.0.1]'],
      ...['169.254.169.254', '10.0.0.1', '192.168.0.1', '[fe80::1]', '100.100.100.200'],
    ]
    const lines = addresses.flatMap((host) => [
      `curl -s -m 10 --noproxy '' -o /dev/null -w '%{http_code} ' 'http://${host}/'`,
      `curl -s -m 10 --noproxy '' -o /dev/null -w '%{http_connect}\\n' 'https://${host}/'`,
      `curl -s -m 10 --noproxy '' -o /dev/null -w '%{http_code}\\n' 'http://${host}:${port}/health'`,
    ])
    const direct = ['127.0.0.1', '0.0.0.0', '169.254.169.254'].map(
      (host) => `(exec 3<>/dev/tcp/${host}/${port}) 2>/dev/null && echo reached ${host}`,
    )
    const { step, log } = await site.attack('caller', workflow([...lines, ...direct, 'echo done']))
    assert.match(log, /\nNetwork: \*, through a proxy\.\n/)
    const output = step.output
      .split('\n')
      .filter((line: string) => !/^network: |^Network: /.test(line))
    assert.deepEqual(output, [...addresses.flatMap(() => ['403 403', '403']), 'done', ''], log)
    const connections = log.split('\n').filter((line) => line.includes('network: '))
    assert.equal(connections.length, addresses.length * 3)
    assert.ok(
      connections.every((line) => / refused: /.test(line)),
      log,
    )
    assert.ok(
      connections.some((line) => /refused: It has the address of a cloud's metadata/.test(line)),
    )
    await assertRecovered(site)
  },
)

test('a step that floods the proxy ends, and the next one has it', options, async () => {
  const flood = [
    'for n in $(seq 600); do exec {held}<>/dev/tcp/127.0.0.1/3128; done 2>/dev/null',
    'sleep 0.2',
    'echo done',
  ]
  const { step } = await site.attack('flooder', workflow(flood))
  assert.equal(step.conclusion, 'success')
  assert.match(
    step.output,
    /\nnetwork: more than 256 connections at a time; further ones are closed\n/,
  )
  const { step: next, log } = await site.attack('flooder', workflow(['curl -s http://10.0.0.1/']))
  assert.match(next.output, /\nnetwork: 10\.0\.0\.1:80 refused: It has a private address/, log)
  await assertRecovered(site)
})

/** A workflow in the short form, of one step in which a failing command is no end. */
function workflow(lines: string[]): string {
  const step = ['set +e', ...lines].map((line) => `      ${line}`)
  return ['steps:', '  - run: |', ...step].join('\n')
}
