import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Problem } from '#base/problem.ts'
import { flushPacket, packet } from './pkt-line.ts'
import { bodyOf } from './request-body.ts'
import { requestsIn } from './requests.ts'

async function requestsOf(chunks: Buffer[], maxBytes = 1000): Promise<string[]> {
  const requests: string[] = []
  for await (const request of requestsIn(bodyOf(...chunks), maxBytes)) {
    requests.push(request.toString())
  }
  return requests
}

test('requests are complete at all chunk boundaries', async () => {
  const requests = [
    Buffer.concat([
      packet('command=ls-refs\n'),
      Buffer.from('0001'),
      packet('peel\n'),
      flushPacket,
    ]),
    Buffer.concat([packet('command=fetch\n'), flushPacket]),
  ]
  const all = Buffer.concat([...requests, flushPacket])
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(all.length)), async (cuts) => {
      const places = [0, ...cuts.sort((one, other) => one - other), all.length]
      const chunks = places.slice(1).map((end, index) => all.subarray(places[index], end))
      assert.deepEqual(await requestsOf(chunks), requests.map(String))
    }),
  )
})

test('requests end with the body, or with a separate flush packet', async () => {
  const one = Buffer.concat([packet('command=fetch\n'), flushPacket])
  assert.deepEqual(await requestsOf([one]), [String(one)])
  assert.deepEqual(await requestsOf([]), [])
  assert.deepEqual(await requestsOf([flushPacket, one]), [])
})

test('a request that is truncated, malformed or too large is rejected', async () => {
  const codeOf = (code: string) => (error: unknown) =>
    error instanceof Problem && error.code === code
  await assert.rejects(requestsOf([packet('command=fetch\n')]), codeOf('malformed_git_request'))
  await assert.rejects(requestsOf([Buffer.from('GET / HTTP')]), codeOf('malformed_git_request'))
  const large = [packet('x'.repeat(600)), packet('x'.repeat(600)), flushPacket]
  await assert.rejects(requestsOf(large), codeOf('body_too_large'))
})
