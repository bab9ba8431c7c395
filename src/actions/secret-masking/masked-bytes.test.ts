// Tags: exhaustive
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { fuzzing } from '../../../test/support/fuzz.ts'
import { toRounds } from '../../../test/support/rounds.ts'
import { formsOf } from './forms.ts'
import { createMasker, type Masker } from './masker.ts'

/** Values and texts of few letters, so that they meet, overlap and begin within themselves. */
const letter = fc.constantFrom('a', 'b', 'c')
const value = fc.oneof(
  fc.string({ unit: letter, minLength: 1, maxLength: 12 }),
  fc.tuple(fc.constantFrom('a', 'ab', 'abc'), fc.integer({ min: 2, max: 30 })).map(repeated),
  fc.constantFrom('é€é€', '€', 'x\u{1f600}y', ' a b c ', 'aaaa\nbbbb', '"abca"'),
)
const values = fc.array(value, { maxLength: 5 })
const cuts = fc.array(fc.nat({ max: 30 }), { maxLength: 40 })

/** Texts of letters, of values, and of what values become. */
const text = values.chain((list) =>
  fc.tuple(
    fc.constant(list),
    fc
      .array(
        fc.oneof(
          fc.string({ unit: letter, maxLength: 8 }),
          fc.constantFrom('a', ' ', '\n', '€', ...list, ...list.map(toBase64), ...list.map(half)),
        ),
        { maxLength: 25 },
      )
      .map((pieces) => pieces.join('')),
  ),
)

test('exactly the forms of a value are masked', () => {
  fc.assert(
    fc.property(text, ([list, content]) => {
      assert.equal(createMasker(list).mask(content), maskSimply(list, content))
    }),
    { numRuns: toRounds(500), ...fuzzing() },
  )
})

test('a stream is masked equally at all chunk boundaries, even within characters', () => {
  fc.assert(
    fc.property(text, cuts, ([list, content], lengths) => {
      const masker = createMasker(list)
      const whole = maskSimply(list, content)
      assert.equal(inPieces(masker, Buffer.from(content), lengths).toString(), whole)
      assert.equal(inPieces(masker, Buffer.from(content), [1]).toString(), whole)
    }),
    { numRuns: toRounds(500), ...fuzzing() },
  )
})

test('values that are added meanwhile do not interrupt the masking of others', () => {
  fc.assert(
    fc.property(text, cuts, fc.nat({ max: 12 }), ([list, content], lengths, added) => {
      const [first, ...others] = list
      const masker = createMasker(first === undefined ? [] : [first])
      // Forms of values that are added early are in several automata, which are merged while they match.
      for (const other of others) masker.add(other)
      const shown = inPieces(masker, Buffer.from(content), lengths, (index) => {
        if (index < added) masker.add(`never written ${index}`)
      })
      assert.equal(shown.toString(), maskSimply(list, content))
    }),
    { numRuns: toRounds(500), ...fuzzing() },
  )
})

test('a text with the beginnings of very many forms is masked from there on', () => {
  const secrets = Array.from({ length: 12 }, (_, index) =>
    createHash('shake256', { outputLength: 24_000 }).update(`${index}`).digest('hex'),
  )
  const masker = createMasker(secrets)
  assert.equal(masker.mask(`a ${secrets[0]} b`), 'a *** b')
  const shown = inPieces(masker, Buffer.from(`${secrets.join(' ')} c`), [4096]).toString()
  assert.match(shown, /^(\*\*\* )*\*\*\*$/)
  assert.equal(masker.mask('nothing else'), 'nothing else')
})

test('bytes without values pass unchanged', () => {
  const masker = createMasker(['correct horse battery staple'])
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), cuts, (bytes, lengths) => {
      assert.deepEqual(inPieces(masker, Buffer.from(bytes), lengths), Buffer.from(bytes))
    }),
    { numRuns: toRounds(100), ...fuzzing() },
  )
})

test('at most the length of the longest form is held back', () => {
  fc.assert(
    fc.property(text, ([list, content]) => {
      const longest = Math.max(0, ...patternsOf(list).map(({ length }) => length))
      const masker = createMasker(list)
      const stream = masker.stream()
      let shown = ''
      const bytes = Buffer.from(content, 'latin1')
      for (const [index, byte] of bytes.entries()) {
        shown += stream.push(Buffer.from([byte])).toString('latin1')
        const safe = bytes.subarray(0, Math.max(0, index + 1 - longest))
        const settled = masker.stream().push(safe).toString('latin1')
        assert.ok(shown.startsWith(settled))
        if (!shown.includes('***')) assert.ok(shown.length >= index + 1 - longest)
      }
    }),
    { numRuns: toRounds(100), ...fuzzing() },
  )
})

test('bytes that cannot start a value are emitted at once', () => {
  const stream = createMasker(['hunter2']).stream()
  assert.equal(stream.push(Buffer.from('Password? ')).toString(), 'Password? ')
  assert.equal(stream.push(Buffer.from('hunt')).toString(), '')
  assert.equal(stream.push(Buffer.from('ing ')).toString(), 'hunting ')
  assert.equal(stream.push(Buffer.from('hunter')).toString(), '')
  assert.equal(stream.end().toString(), 'hunter')
})

test('long values are masked in all forms, across chunks', () => {
  const long = Array.from({ length: 2000 }, (_, index) => `${index} "é" /`).join(' ')
  const masker = createMasker([long, `${long}b`, 'a'.repeat(48_000)])
  const forms = [long, JSON.stringify(long).slice(1, -1), encodeURIComponent(long), toBase64(long)]
  for (const form of [...forms, Buffer.from(long).toString('hex'), `${long}b`]) {
    const bytes = Buffer.from(`<${form}>${form.slice(0, -20)}`)
    const shown = `<***>${form.slice(0, -20)}`
    assert.equal(inPieces(masker, bytes, [4096]).toString(), shown)
    assert.equal(inPieces(masker, bytes, [77]).toString(), shown)
  }
})

test('a megabyte of one letter is masked by a value of that letter, and shown for a similar value', () => {
  const megabyte = Buffer.alloc(1_048_576, 'a')
  const mask = (secret: string) => inPieces(createMasker([secret]), megabyte, [65_536])
  assert.equal(mask('a'.repeat(48_000)).toString(), '***')
  assert.equal(mask('aaaa').toString(), '***')
  assert.equal(mask(`${'a'.repeat(47_999)}b`).length, megabyte.length)
  assert.equal(mask(`${'a'.repeat(24_000)}b${'a'.repeat(24_000)}`).length, megabyte.length)
})

test('many lines with a common prefix are distinguished', () => {
  const lines = Array.from({ length: 3000 }, (_, index) => `https://example.com/${10_000 + index}`)
  const masker = createMasker([lines.join('\n')])
  assert.equal(masker.mask(`${lines[0]} ${lines[1999]}`), '*** ***')
  assert.equal(masker.mask('https://example.com/9'), 'https://example.com/9')
})

function inPieces(
  masker: Masker,
  bytes: Buffer,
  lengths: number[],
  onPiece?: (index: number) => void,
): Buffer {
  const stream = masker.stream()
  const shown: Buffer[] = []
  let start = 0
  for (let index = 0; start < bytes.length; index++) {
    const length = lengths.length === 0 ? bytes.length : (lengths[index % lengths.length] ?? 1)
    // A copy, as a chunk may be overwritten after it was pushed.
    const chunk = Buffer.from(bytes.subarray(start, start + Math.max(1, length)))
    shown.push(Buffer.from(stream.push(chunk)))
    onPiece?.(index)
    chunk.fill(0)
    start += chunk.length
  }
  return Buffer.concat([...shown, stream.end()])
}

/** All that is to be found of some values, by the simplest way to find it. */
function maskSimply(list: string[], content: string): string {
  const bytes = Buffer.from(content)
  const covered = new Uint8Array(bytes.length)
  const begins = new Uint8Array(bytes.length)
  const regions = patternsOf(list)
    .flatMap((pattern) => placesOf(pattern, bytes).map((start) => [start, start + pattern.length]))
    .sort(([a = 0], [b = 0]) => a - b)
  let end = 0
  for (const [from = 0, to = 0] of regions) {
    if (from >= end) begins[from] = 1
    end = Math.max(end, to)
    covered.fill(1, from, to)
  }
  const shown = [...bytes].flatMap((byte, index) => [
    ...(begins[index] === 1 ? Buffer.from('***') : []),
    ...(covered[index] === 1 ? [] : [byte]),
  ])
  return Buffer.from(shown).toString()
}

function patternsOf(list: string[]): Buffer[] {
  return list
    .map(formsOf)
    .flatMap(({ anywhere, word }) => [
      ...anywhere.map(({ head, bytes }) => bytes?.() ?? head).filter(({ length }) => length >= 4),
      ...(word ? [word] : []),
    ])
}

function placesOf(pattern: Buffer, bytes: Buffer): number[] {
  const isWordByte = (byte: number | undefined) =>
    byte !== undefined && (byte >= 128 || /\w/.test(String.fromCharCode(byte)))
  return [...bytes.keys()].filter(
    (start) =>
      bytes.subarray(start, start + pattern.length).equals(pattern) &&
      (pattern.length >= 4 ||
        !(isWordByte(bytes[start - 1]) || isWordByte(bytes[start + pattern.length]))),
  )
}

function toBase64(content: string): string {
  return Buffer.from(content).toString('base64')
}

function half(content: string): string {
  return content.slice(0, content.length / 2).toWellFormed()
}

function repeated([unit, times]: [string, number]): string {
  return unit.repeat(times)
}
