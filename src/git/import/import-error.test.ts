import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toImportFault } from './import-error.ts'

const id = '9'.repeat(40)

for (const errorOutput of [
  `error: Could not read ${id}\nfatal: Failed to traverse parents of commit ${id}`,
  `fatal: unable to read tree (${id})`,
  `fatal: unable to parse object: ${id}`,
  `fatal: missing blob object '${id}'`,
  `fatal: bad object ${id}`,
  'error: inflate: data stream error (incorrect header check)',
  `fatal: pack is corrupted (SHA1 mismatch)`,
]) {
  test(`a source is damaged of which git says: ${errorOutput.split('\n')[0]}`, () => {
    const { message } = toImportFault({ exitCode: 128, errorOutput }, [])
    assert.match(message, /^The source is damaged, shallow or incomplete/)
  })
}

test('a missing password is not reported as damage', () => {
  const errorOutput =
    "fatal: could not read Username for 'https://host.example': terminal prompts disabled"
  assert.match(toImportFault({ exitCode: 128, errorOutput }, []).message, /requires credentials/)
})
