import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type HostRule, parseHostRule } from '#base/outbound/host-rules.ts'
import type { Isolation } from '../../sandbox/sandbox.ts'
import { networkAccessOf } from './running-workflow.ts'

type Case = {
  /** What the runner has, and what the workflow says. */
  kind?: Isolation['kind']
  network: Isolation['network']
  hosts?: string
  wanted?: string
}

const noSandbox =
  'Network: all that the machine of the runner has. `network` has no effect, because there is no sandbox.'

const cases: [name: string, Case, hosts: string, line: string | undefined][] = [
  ['without anything, none', { network: 'none' }, 'default', undefined],
  [
    'the whole network, for a workflow without `network`',
    { network: 'full' },
    'default',
    undefined,
  ],
  [
    'all listed hosts, for a workflow without `network`',
    { network: 'hosts', hosts: 'a.example *.b.example:8080' },
    'a.example *.b.example:8080',
    'Network: a.example, *.b.example:8080, through a proxy.',
  ],
  [
    'none, if the workflow says so',
    { network: 'hosts', hosts: '*', wanted: '' },
    'none',
    'Network: none, as the workflow says.',
  ],
  [
    'none in spite of the whole network, if the workflow says so',
    { network: 'full', wanted: '' },
    'none',
    'Network: none, as the workflow says.',
  ],
  [
    'what the workflow lists, of what the runner lists',
    { network: 'hosts', hosts: '*.example', wanted: 'a.example evil.test' },
    'a.example',
    'Network: a.example, through a proxy. SVC_STEP_HOSTS of the runner does not allow evil.test.',
  ],
  [
    'what the workflow lists, of the whole network',
    { network: 'full', wanted: 'a.example:22' },
    'a.example:22',
    'Network: a.example:22, through a proxy.',
  ],
  [
    'none, if the runner lists no hosts',
    { network: 'none', wanted: 'a.example' },
    'none',
    'Network: none. SVC_STEP_HOSTS of the runner does not allow a.example.',
  ],
  ['all, without a sandbox', { kind: 'none', network: 'full', wanted: '' }, 'default', noSandbox],
]

for (const [name, { kind = 'bubblewrap', network, hosts, wanted }, expected, line] of cases) {
  test(`steps have ${name}`, () => {
    const isolation: Isolation = { kind, network, memoryLimit: 'watched', description: '' }
    const wantedRules = wanted === undefined ? undefined : rulesOf(wanted)
    const found = networkAccessOf({ isolation, hosts: rulesOf(hosts ?? '') }, wantedRules)
    const isWord = expected === 'default' || expected === 'none'
    assert.deepEqual(found, { hosts: isWord ? expected : rulesOf(expected), line })
  })
}

test('a long list is shortened in the log', () => {
  const hosts = rulesOf(Array.from({ length: 30 }, (_, index) => `h${index}.example`).join(' '))
  const isolation: Isolation = {
    kind: 'bubblewrap',
    network: 'hosts',
    memoryLimit: 'watched',
    description: '',
  }
  const { line } = networkAccessOf({ isolation, hosts }, undefined)
  assert.match(line ?? '', /, h19\.example and 10 more, through a proxy\.$/)
})

function rulesOf(text: string): HostRule[] {
  return text
    .split(' ')
    .filter((one) => one !== '')
    .map((one) => {
      const rule = parseHostRule(one)
      assert.ok(typeof rule !== 'string', String(rule))
      return rule
    })
}
