import assert from 'node:assert/strict'
import { test } from 'node:test'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { readFetchRequest } from './cache-key.ts'

const id = '1'.repeat(40)
const delimiter = Buffer.from('0001')

test('the agent does not change the key of a request, and its arguments do', () => {
  const one = readFetchRequest(request([`want ${id}`], { agent: 'git/2.39.5' }))
  const other = readFetchRequest(request([`want ${id}`], { agent: 'JGit/7' }))
  assert.ok(one && other)
  assert.deepEqual(one, other)
  const changed = readFetchRequest(request([`want ${'2'.repeat(40)}`]))
  assert.notDeepEqual(one.canonical, changed?.canonical)
})

test('an agent among the arguments is not ignored', () => {
  assert.equal(readFetchRequest(request([`want ${id}`, 'agent=git'])), undefined)
})

test('everything else that a response depends on is reported', () => {
  const read = (...args: string[]) => {
    const { hasHaves, includesTags } = readFetchRequest(request([`want ${id}`, ...args])) ?? {}
    return [hasHaves, includesTags]
  }
  assert.deepEqual(read('done'), [false, false])
  assert.deepEqual(read('include-tag', 'done\n'), [false, true])
  assert.deepEqual(read(`have ${id}`), [true, false])
})

test('a shallow clone is a request for a depth, without objects of the client', () => {
  const isShallow = (...args: string[]) =>
    readFetchRequest(request([`want ${id}`, ...args, 'done']))?.isShallowClone
  assert.equal(isShallow('deepen 1'), true)
  for (const others of [[], ['deepen 1', `have ${id}`], ['deepen 1', `shallow ${id}`]])
    assert.equal(isShallow(...others), false)
})

for (const known of [
  'thin-pack',
  'no-progress',
  'ofs-delta\n',
  'wait-for-done',
  `shallow ${id}`,
  'deepen 1',
  'deepen-relative',
  'deepen-since 1700000000',
  'filter blob:none',
  'filter blob:limit=1k',
  'filter tree:0',
  'filter object:type=commit',
]) {
  test(`${JSON.stringify(known)} is understood`, () => {
    assert.ok(readFetchRequest(request([`want ${id}`, known, 'done'])))
  })
}

for (const unknown of [
  'want-ref refs/heads/main',
  'deepen-not refs/heads/main',
  'packfile-uris https',
  'sideband-all',
  'filter sparse:oid=main:.sparse',
  'filter combine:blob:none+sparse:oid=main:x',
  'want HEAD',
  `want ${id.toUpperCase()}a`,
  `want ${id} `,
  'deepen -1',
  'done\nwant',
  '',
]) {
  test(`${JSON.stringify(unknown)} is left to git`, () => {
    assert.equal(readFetchRequest(request([`want ${id}`, unknown])), undefined)
  })
}

test('anything but one complete command of version 2 is left to git', () => {
  const whole = request([`want ${id}`, 'done'])
  const want = packet(`want ${id}\n`)
  for (const other of [
    Buffer.alloc(0),
    whole.subarray(0, -4),
    whole.subarray(0, -1),
    Buffer.concat([whole, whole]),
    Buffer.concat([whole, Buffer.from('PACK')]),
    Buffer.concat([packet('command=ls-refs'), delimiter, flushPacket]),
    Buffer.concat([packet('command=fetch'), flushPacket]),
    Buffer.concat([packet('command=fetch'), packet('server-option=x'), delimiter, flushPacket]),
    Buffer.concat([
      packet('command=fetch'),
      packet('object-format=sha512'),
      delimiter,
      flushPacket,
    ]),
    Buffer.concat([packet('command=fetch'), packet('command=fetch'), delimiter, flushPacket]),
    Buffer.concat([packet('agent=x'), delimiter, want, flushPacket]),
    Buffer.concat([packet('command=fetch'), delimiter, want, delimiter, flushPacket]),
    Buffer.concat([want, flushPacket, packet('done\n')]),
  ]) {
    assert.equal(readFetchRequest(other), undefined, other.toString('latin1'))
  }
})

test('an unusually long request is left to git', () => {
  const wants = Array<string>(4000).fill(`want ${id}`)
  assert.ok(readFetchRequest(request(wants)))
  assert.equal(readFetchRequest(request([...wants, ...wants])), undefined)
})

function request(args: string[], { agent = 'git/2' } = {}): Buffer {
  const capabilities = [
    packet('command=fetch'),
    packet(`agent=${agent}`),
    packet('object-format=sha1'),
  ]
  return Buffer.concat([...capabilities, delimiter, ...args.map((arg) => packet(arg)), flushPacket])
}
