import assert from 'node:assert/strict'
import { test } from 'node:test'
import { flushPacket, packet } from './pkt-line.ts'
import { createResponsePackets } from './response-packets.ts'

/** For a response in chunks of one size: the sent and the held bytes, and the reason in its place. */
function follow(response: Buffer, pieceBytes: number) {
  const packets = createResponsePackets()
  const sent: Buffer[] = []
  for (let at = 0; at < response.length; at += pieceBytes)
    sent.push(packets.pass(response.subarray(at, at + pieceBytes)))
  return {
    sent: Buffer.concat(sent).toString('latin1'),
    rest: packets.rest().toString('latin1'),
    reason: packets.explain('why')?.toString('latin1'),
    progress: packets.lastProgress(),
  }
}

const hash = 'a'.repeat(40)
const id = `${hash}\n`
const inBand = packet('\x03why\n').toString('latin1')
const asError = packet('ERR why\n').toString('latin1')
const progress = packet('\x02fatal: Out of memory\n')
const data = packet(Buffer.concat([Buffer.from([1]), Buffer.alloc(65_000)]))
const gitsReason = packet('\x03aborting due to possible repository corruption on the remote side.')

const responses: Record<string, { packets: Buffer[]; reason: string | undefined }> = {
  'nothing yet': { packets: [], reason: asError },
  'some refs': {
    packets: [packet(`${hash} HEAD\n`), packet(`${hash} refs/heads/main\n`)],
    reason: asError,
  },
  'a negotiation of version 2': {
    packets: [packet('acknowledgments\n'), packet('NAK\n'), packet(`ACK ${id}`)],
    reason: asError,
  },
  'the section of a pack': {
    packets: [
      packet('acknowledgments\n'),
      packet('ready\n'),
      Buffer.from('0001'),
      packet('packfile\n'),
    ],
    reason: inBand,
  },
  'the shallow commits of version 0': {
    packets: [packet(`shallow ${id}`), flushPacket],
    reason: asError,
  },
  'the negotiation of version 0': { packets: [packet('NAK\n')], reason: inBand },
  'common commits of version 0': { packets: [packet(`ACK ${hash} common\n`)], reason: asError },
  'the last common commit of version 0': { packets: [packet(`ACK ${id}`)], reason: inBand },
  'a part of a pack': {
    packets: [packet('packfile\n'), data, data, packet('\x01')],
    reason: inBand,
  },
  'an archive': { packets: [packet('ACK\n'), flushPacket, data], reason: inBand },
  'half a packet': { packets: [packet('packfile\n'), data.subarray(0, 900)], reason: undefined },
  'half a length': { packets: [packet('packfile\n'), Buffer.from('00')], reason: undefined },
  'a pack without side bands': {
    packets: [packet('NAK\n'), Buffer.from('PACK\0\0\0\x02')],
    reason: undefined,
  },
}

for (const [name, { packets, reason }] of Object.entries(responses)) {
  test(`${name} can be followed by a reason where the protocol has a place for it`, () => {
    const response = Buffer.concat(packets)
    for (const pieceBytes of [1, 2, 3, 5, 7, 4096, 65_536, 1_000_000]) {
      const followed = follow(response, pieceBytes)
      assert.equal(followed.sent + followed.rest, response.toString('latin1'))
      assert.equal(followed.reason, reason)
      if (reason !== undefined) assert.equal(followed.rest, '')
    }
  })
}

test('the reason of git is held back, and the error output before it is known', () => {
  const before = Buffer.concat([packet('packfile\n'), data, progress])
  const response = Buffer.concat([before, gitsReason, flushPacket])
  for (const pieceBytes of [1, 2, 3, 5, 7, 4096, 65_536, 1_000_000]) {
    assert.deepEqual(follow(response, pieceBytes), {
      sent: before.toString('latin1'),
      rest: Buffer.concat([gitsReason, flushPacket]).toString('latin1'),
      reason: inBand,
      progress: 'fatal: Out of memory\n',
    })
  }
})

test('a response that ends within a packet is incomplete, wherever that is', () => {
  const packets = createResponsePackets()
  for (let at = 0; at < data.length; at++) {
    assert.equal(packets.isIncomplete(), at > 0, String(at))
    packets.pass(data.subarray(at, at + 1))
  }
  assert.equal(packets.isIncomplete(), false)
  const raw = createResponsePackets()
  raw.pass(Buffer.from('PACK and what follows'))
  assert.equal(raw.isIncomplete(), false)
})
