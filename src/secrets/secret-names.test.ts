import assert from 'node:assert/strict'
import { test } from 'node:test'
import { faultOfSecretName, isSecretName } from './secret-names.ts'

test('names of variables are names of secrets', () => {
  const names = [
    'TOKEN',
    'a',
    '_x',
    'npm_token',
    'S3_KEY_2',
    'x'.repeat(100),
    'GITHUB',
    'PATHS',
    'GIT_TOKEN',
  ]
  for (const name of [...names, 'ACTIONS_STEP_DEBUG', 'LD_SDK_KEY', 'constructor', 'toString']) {
    assert.equal(faultOfSecretName(name), undefined, name)
  }
})

test('what is no name of a variable is told what one is', () => {
  const texts = ['', '1A', 'A-B', 'A B', 'A.B', 'A\n', 'Ä', 'A\0', 'x'.repeat(101), 'A=B', '../A']
  for (const text of texts) {
    assert.ok(!isSecretName(text))
    assert.match(faultOfSecretName(text) ?? '', /takes 1 to 100 letters/, text)
  }
})

test('variables that steps need are not taken from them, in any case', () => {
  const names = [
    'PATH',
    'Path',
    'HOME',
    'SVC_TOKEN',
    'GITHUB_TOKEN',
    'github_sha',
    'RUNNER_TEMP',
    'CI',
  ]
  for (const name of [...names, 'LD_PRELOAD', 'BASH_ENV', 'NODE_OPTIONS', '_', '__proto__']) {
    assert.match(faultOfSecretName(name) ?? '', /Choose another name/, name)
    assert.ok(isSecretName(name))
  }
})
