import assert from 'node:assert/strict'
import fc from 'fast-check'
import { Problem } from '../../src/base/problem.ts'
import { parseSource, type RemoteSource } from '../../src/repositories/source-address.ts'

/** What addresses are made of, and what they are broken with. */
export const piece = fc.constantFrom(
  ...[
    'https://',
    'ssh://',
    'git://',
    'http://',
    '/',
    '//',
    ':',
    '@',
    '[',
    ']',
    '@[',
    '.',
    '..',
    '~',
    '-',
    '%',
  ],
  ...[
    '%40',
    '%5b',
    '%5D',
    '%2f',
    '%3A',
    '%00',
    '%c3%a4',
    '?',
    '#',
    '\\',
    ' ',
    '\n',
    '\0',
    '::',
    '::1',
    '127.1',
  ],
  ...[
    'a',
    'example.com',
    '.git',
    '22',
    '65536',
    'é',
    '。',
    '\ud800',
    'git',
    'evil',
    '[::1]',
    '+',
    '=',
  ],
)
/** An address that must be a remote one. */
export function remote(text: string): RemoteSource {
  const source = parseSource(text)
  assert.ok(source.kind === 'remote', text)
  return source
}

/** What an address means; undefined when it is refused. */
export function attempt(text: string) {
  try {
    return parseSource(text)
  } catch (error) {
    assert.ok(error instanceof Problem, String(error))
    return undefined
  }
}
