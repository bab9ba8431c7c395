import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandOf, ShellError, shellOf } from './run-script-step.ts'

test('shells are started as on GitHub', () => {
  const cases: [string | undefined, string[]][] = [
    [undefined, ['bash', '-e', 'F']],
    ['bash', ['bash', '--noprofile', '--norc', '-eo', 'pipefail', 'F']],
    ['sh', ['sh', '-e', 'F']],
    ['python', ['python3', 'F']],
    ['perl {0}', ['perl', 'F']],
    ["awk -v 'a=b c' -f {0}", ['awk', '-v', 'a=b c', '-f', 'F']],
    ['bash --init-file={0} -x', ['bash', '--init-file=F', '-x']],
  ]
  for (const [name, command] of cases) assert.deepEqual(commandOf(shellOf(name), 'F'), command)
})

test('an unknown shell is rejected with the known ones', () => {
  for (const name of ['pwsh', 'cmd', '{0}', 'constructor']) {
    assert.throws(() => shellOf(name), ShellError)
  }
})
