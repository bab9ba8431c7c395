import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { settings } from '#config/settings-table.ts'
import { manPage } from '../../scripts/man-page.ts'
import { without } from '../support/programs.ts'

const execute = promisify(execFile)
const path = fileURLToPath(new URL('../../docs/svc.1', import.meta.url))

test('the man page is that of the commands and settings', async () => {
  const page = await readFile(path, 'utf8')
  assert.equal(page, manPage(), 'npm run docs brings docs/svc.1 up to date')
  for (const { variable } of Object.values(settings))
    assert.match(page, new RegExp(`^\\.B ${variable}$`, 'm'))
  for (const command of ['serve', 'doctor', 'tokens create', 'backup verify', 'store adopt'])
    assert.match(page, new RegExp(`^\\.SS svc ${command}`, 'm'))
})

const skip = without('mandoc')

test('the man page is one', { skip }, async () => {
  const lint = await execute('mandoc', ['-T', 'lint', path]).catch((error) => error)
  // It has no date, which would change with every build.
  const findings = lint.stdout
    .split('\n')
    .filter((line: string) => line !== '' && !/missing date/.test(line))
  assert.deepEqual(findings, [])
  const shown = (await execute('mandoc', ['-T', 'utf8', '-O', 'width=80', path])).stdout
  const plain = shown.replace(/.\x08/g, '')
  assert.match(plain, /^NAME\n +svc - hosts Git repositories/m)
  assert.match(plain, /^ +--no-fsck\n +skip the check/m)
})
