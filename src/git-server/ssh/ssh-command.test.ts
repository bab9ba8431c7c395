import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { character } from '../../../test/support/fuzz.ts'
import { toWords } from './ssh-command.ts'

test('words are quoted as people and shells quote them', () => {
  const lines: [string, string[] | undefined][] = [
    ["git-upload-pack '/site.git'", ['git-upload-pack', '/site.git']],
    ['  info   site ', ['info', 'site']],
    ['info "a \\"b\\" c"', ['info', 'a "b" c']],
    ["info it\\'s", ['info', "it's"]],
    ["info ''", ['info', '']],
    ['', []],
    ["info 'site", undefined],
    ['info "site', undefined],
    ['info site\\', undefined],
    ['info $(id) `id` ; id', ['info', '$(id)', '`id`', ';', 'id']],
  ]
  for (const [line, words] of lines) assert.deepEqual(toWords(line), words, line)
})

test('words that Git has quoted are read back unchanged', () => {
  const quote = (text: string) => `'${text.replace(/['!]/g, "'\\$&'")}'`
  fc.assert(
    fc.property(fc.array(fc.string({ unit: character }), { minLength: 1 }), (words) => {
      assert.deepEqual(toWords(words.map(quote).join(' ')), words)
    }),
  )
})
