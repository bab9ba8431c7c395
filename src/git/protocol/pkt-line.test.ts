import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { firstPacket, packet } from './pkt-line.ts'

test('an encoded packet is parsed back, with any bytes after it', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 300 }),
      fc.uint8Array({ maxLength: 20 }),
      (payload, rest) => {
        const bytes = Buffer.concat([packet(Buffer.from(payload)), rest])
        const found = firstPacket(bytes)
        assert.ok(typeof found === 'object' && found.packet.kind === 'data')
        assert.deepEqual(found.packet.payload, Buffer.from(payload))
        assert.equal(found.length, payload.length + 4)
      },
    ),
  )
})

test('every prefix of a packet is incomplete, never malformed', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), fc.nat(), (payload, cut) => {
      const whole = packet(Buffer.from(payload))
      assert.equal(firstPacket(whole.subarray(0, cut % whole.length)), 'incomplete')
    }),
  )
})

test('arbitrary bytes never throw, and a length never exceeds the input', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      const found = firstPacket(Buffer.from(bytes))
      if (typeof found === 'object') assert.ok(found.length <= bytes.length)
    }),
  )
})

test('special packets and impossible lengths are distinguished', () => {
  const kinds = ['0000', '0001', '0002'].map((text) => firstPacket(Buffer.from(text)))
  assert.deepEqual(
    kinds.map((found) => typeof found === 'object' && found.packet.kind),
    ['flush', 'delimiter', 'response-end'],
  )
  for (const text of ['0003', 'fff1', 'ffff', 'zzzz', '00g0', 'GET ']) {
    assert.equal(firstPacket(Buffer.from(text)), 'malformed', text)
  }
  assert.throws(() => packet(Buffer.alloc(65_517)), RangeError)
})

test('reads what git writes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'))
  execFileSync('git', ['init', '--quiet', '--bare', folder])
  const offer = execFileSync('git', ['upload-pack', '--http-backend-info-refs', folder], {
    env: { ...process.env, GIT_PROTOCOL: 'version=2' },
  })
  const kinds: string[] = []
  for (let rest = offer; rest.length > 0; ) {
    const found = firstPacket(rest)
    assert.ok(typeof found === 'object')
    kinds.push(found.packet.kind)
    rest = rest.subarray(found.length)
  }
  assert.ok(kinds.length > 2)
  assert.equal(kinds.at(-1), 'flush')
  rmSync(folder, { recursive: true })
})
