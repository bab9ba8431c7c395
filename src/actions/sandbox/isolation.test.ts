import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chooseIsolation, describeIsolation } from './isolation.ts'

const fault = 'bubblewrap is not installed'

test('steps run in bubblewrap if it works', () => {
  for (const mode of ['auto', 'require'] as const) {
    for (const isRoot of [true, false]) {
      assert.equal(chooseIsolation({ mode, fault: undefined, isRoot }), 'bubblewrap')
    }
  }
})

test("without bubblewrap, steps run as separate users, or as the runner's user if that was accepted", () => {
  const choices = (['auto', 'require', 'none'] as const).flatMap((mode) =>
    [true, false].flatMap((isRoot) =>
      [true, false].map((ownUserAllowed) => {
        const choice = chooseIsolation({ mode, fault, isRoot, ownUserAllowed })
        return `${mode} ${isRoot ? 'root' : 'user'} ${ownUserAllowed ? 'own' : 'others'}: ${choice}`
      }),
    ),
  )
  assert.deepEqual(choices, [
    'auto root own: unsandboxed',
    'auto root others: unsandboxed',
    'auto user own: unsandboxed',
    'auto user others: refused',
    'require root own: refused',
    'require root others: refused',
    'require user own: refused',
    'require user others: refused',
    'none root own: unsandboxed',
    'none root others: unsandboxed',
    'none user own: unsandboxed',
    'none user others: unsandboxed',
  ])
})

test('a rejection names both alternatives', () => {
  const { description } = describeIsolation({
    ...{ mode: 'auto', fault, isRoot: false, network: 'none' },
    limits: { memoryMaxBytes: 2 ** 30, processesMax: 100 },
    memory: { controller: undefined, fault: 'the cgroup file system is mounted read-only' },
  })
  assert.match(description, /^Steps do not run here: .*bubblewrap is not installed\./)
  assert.match(description, /`apt-get install bubblewrap`;.* SVC_SANDBOX=none runs them/)
})
