import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { flushPacket, packet } from './pkt-line.ts'
import { readPushRequest } from './push-commands.ts'
import { bodyOf, collect } from './request-body.ts'

const zeros = '0'.repeat(40)
const ones = '1'.repeat(40)
const command = (ref: string, capabilities = '') =>
  packet(`${zeros} ${ones} ${ref}${capabilities && `\0${capabilities}`}`)
const pack = Buffer.from('PACK and so on')

async function read(...bytes: Buffer[]) {
  const { whole, ...request } = await readPushRequest(bodyOf(...bytes), 10)
  return { ...request, body: await collect(whole) }
}

test('options are parsed at all chunk boundaries, and the pack begins after them', async () => {
  const option = fc.string({ unit: fc.constantFrom('a', 'ä', ' ', '=', '0', 'P'), maxLength: 9 })
  await fc.assert(
    fc.asyncProperty(
      fc.array(option, { maxLength: 5 }),
      fc.array(fc.nat(200)),
      async (options, cuts) => {
        const heading = Buffer.concat([
          command('refs/heads/a', 'report-status push-options'),
          command('refs/heads/b'),
          flushPacket,
          ...options.map((text) => packet(text)),
          flushPacket,
        ])
        const all = Buffer.concat([heading, pack])
        const places = [0, ...cuts.sort((one, other) => one - other), all.length]
        const chunks = places.slice(1).map((end, index) => all.subarray(places[index], end))
        const request = await read(...chunks.filter(({ length }) => length > 0))
        assert.deepEqual(request.options, options)
        assert.equal(request.commandBytes, heading.length)
        assert.equal(request.refusal, undefined)
        assert.deepEqual(request.body, all)
      },
    ),
  )
})

test('a push from a shallow repository is known', async () => {
  const first = [command('refs/heads/a', 'report-status'), flushPacket, pack]
  assert.equal((await read(...first)).isShallow, false)
  assert.equal((await read(packet(`shallow ${ones}\n`), ...first)).isShallow, true)
})

test('options are expected only where git expects them', async () => {
  const options = [packet('x\n'), flushPacket]
  for (const capabilities of ['push-options', 'a push-options=1 b', 'a\tpush-options']) {
    const first = [command('refs/heads/a', capabilities), flushPacket, ...options, pack]
    assert.deepEqual((await read(...first)).options, ['x'], capabilities)
    const second = [command('refs/heads/a', 'atomic'), command('refs/heads/b', capabilities)]
    assert.deepEqual((await read(...second, flushPacket, ...options, pack)).options, ['x'])
  }
  for (const capabilities of ['', 'no-push-options', 'push-options-x']) {
    const request = await read(command('refs/heads/a', capabilities), flushPacket, pack)
    assert.deepEqual(request.options, [], capabilities)
  }
  assert.deepEqual((await read(flushPacket)).options, [])
})

test('a ref name that is too long is refused as such, up to the longest packet', async () => {
  for (const length of [1025, 4000, 4096, 5000, 65_000]) {
    const long = `refs/heads/${'x/'.repeat(length)}`.slice(0, length - 1).concat('x')
    const { refusal } = await read(command('refs/heads/a', 'x'), command(long), flushPacket, pack)
    assert.equal(refusal?.code, 'ref_name_refused')
    assert.match(
      refusal.message,
      new RegExp(`^"refs/heads/x.{80,90}…", of ${length} characters, which may`),
    )
  }
  const many = Array.from({ length: 70 }, () => command(`refs/heads/${'x'.repeat(65_000)}`))
  await assert.rejects(read(...many, flushPacket), /does not begin as a push/)
})

test('options that are truncated, malformed, too many or too long are rejected', async () => {
  const heading = [command('refs/heads/a', 'push-options'), flushPacket]
  const many = Array.from({ length: 101 }, () => packet('x'))
  for (const [rest, message] of [
    [[packet('x')], /does not begin as a push/],
    [[Buffer.from('zzzz')], /does not begin as a push/],
    [[packet('x'), Buffer.from('0001')], /does not begin as a push/],
    [[...many, flushPacket], /at most 100 options/],
    [[packet('x'.repeat(4097)), flushPacket], /at most 4096 bytes/],
  ] as const) {
    const { refusal, updates, options } = await read(...heading, ...rest)
    assert.match(refusal?.message ?? '', message)
    assert.deepEqual([updates, options], [[], []])
  }
})
