import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createGlob } from './glob.ts'

const cases: [patterns: string[], matched: string[], unmatched: string[]][] = [
  [['**/package-lock.json'], ['package-lock.json', 'a/b/package-lock.json'], ['a/package.json']],
  [['*.lock'], ['a.lock', '.lock'], ['b/a.lock']],
  [['src'], ['src', 'src/a.ts', 'src/b/c.ts'], ['srcs/a.ts']],
  [['src/**/*.ts'], ['src/a.ts', 'src/b/.c.ts'], ['src/a.js', 'a.ts']],
  [
    ['**', '!**/*.md'],
    ['a', 'b/c'],
    ['a.md', 'b/c.md'],
  ],
  [['!a', 'a'], ['a'], []],
  [
    ['a?c/[x-z]', '[!a]'],
    ['abc/y', 'b'],
    ['abc/a', 'a', 'ac/x'],
  ],
  [
    ['[^a]x', '[!^]y', '[]^]z'],
    ['bx', '^x', 'ay', ']z', '^z'],
    ['ax', '^y', 'az'],
  ],
  [['# a', '/elsewhere/a', '/workspace/b'], ['b'], ['# a', 'a', 'elsewhere/a']],
  [['a\nb'], ['a', 'b'], ['c']],
  [['a.c', '{a,b}'], ['a.c'], ['abc', 'b']],
]

test('patterns match as those of hashFiles', () => {
  for (const [patterns, matched, unmatched] of cases) {
    const matches = createGlob(patterns, '/workspace')
    assert.deepEqual(matched.filter(matches), matched, patterns.join())
    assert.deepEqual(unmatched.filter(matches), [], patterns.join())
  }
})

test('a pattern longer than any path, and more patterns than a thousand, are an error', () => {
  assert.throws(() => createGlob(['a'.repeat(4097)], '/workspace'), /longer than 4096 characters/)
  assert.throws(() => createGlob(['a\n'.repeat(1001)], '/workspace'), /more than 1000 patterns/)
})
