import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { minifyStyles } from '../../scripts/minify.ts'
import { styleSheets } from './style-sheets.ts'

const maxBytes = 6000
const folder = new URL('assets/css/', import.meta.url)

test('every file of styles is in a style sheet', () => {
  const used = new Set(['base', ...Object.values(styleSheets).flat()])
  assert.deepEqual(readdirSync(folder).sort(), [...used].map((file) => `${file}.css`).sort())
})

test('no style sheet takes more than 6 kB to transfer', () => {
  const read = (file: string) => readFileSync(new URL(`${file}.css`, folder), 'utf8')
  for (const [name, files] of Object.entries(styleSheets)) {
    const styles = ['base', ...files].map(read).join('')
    const { length } = gzipSync(minifyStyles(styles), { level: 9 })
    assert.ok(length <= maxBytes, `${name} has ${length} bytes`)
  }
})
