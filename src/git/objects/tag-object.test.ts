import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseTag } from './tag-object.ts'

const head =
  'object 0123456789012345678901234567890123456789\ntype commit\ntag v1\ntagger Ada <ada@example.com> 1700000000 +0100\n\n'

const signatures = [
  ['-----BEGIN PGP SIGNATURE-----', 'openpgp'],
  ['-----BEGIN PGP MESSAGE-----', 'openpgp'],
  ['-----BEGIN SIGNED MESSAGE-----', 'x509'],
  ['-----BEGIN SSH SIGNATURE-----', 'ssh'],
] as const

function parse(message: string) {
  const { tagger, ...rest } = parseTag(Buffer.from(head + message))
  assert.equal(tagger?.name, 'Ada')
  return rest
}

test('the signature of a tag is no part of its message', () => {
  for (const [start, signature] of signatures) {
    const block = `${start}\n\nU1NIU0lH\n${start.replace('BEGIN', 'END')}\n`
    assert.deepEqual(parse(`First\n\nbody\n${block}`), { message: 'First\n\nbody\n', signature })
    assert.deepEqual(parse(block), { message: '', signature })
    // Git verifies what is before the last one.
    const twice = parse(`First\n${block}Second\n${block}`)
    assert.deepEqual(twice, { message: `First\n${block}Second\n`, signature })
  }
})

test('a message may quote the begin of a signature within a line', () => {
  for (const [start] of signatures) {
    const message = `As in\n> ${start}\n`
    assert.deepEqual(parse(message), { message, signature: undefined })
  }
  assert.deepEqual(parse(''), { message: '', signature: undefined })
})
