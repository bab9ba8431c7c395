import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { text as textOf } from 'node:stream/consumers'
import { test } from 'node:test'
import { packet } from '../git/pkt-line.ts'
import { sayHead } from './early-head.ts'

const head = packet('packfile\n')

for (const bytesAtOnce of [1, 7, 1000]) {
  test(`what git says, ${bytesAtOnce} bytes at once, is said once`, async () => {
    const answer = Buffer.concat([head, packet('\x01PACK'), Buffer.from('0000')])
    assert.deepEqual(await said(answer, bytesAtOnce), {
      text: answer.toString(),
      isConfirmed: true,
    })
  })

  test(`what git says instead, ${bytesAtOnce} bytes at once, becomes an error of the pack`, async () => {
    const text = (message: string) => `${head}${packet(`\x03${message}`)}`
    const refusal = packet('ERR upload-pack: not our ref 1\n')
    assert.deepEqual(await said(refusal, bytesAtOnce), {
      text: text('upload-pack: not our ref 1'),
      isConfirmed: false,
    })
    for (const other of ['', '000dpack', '0000', 'no packet', `${packet('shallow-info\n')}${head}`])
      assert.deepEqual(await said(Buffer.from(other), bytesAtOnce), {
        text: text('upload-pack: the pack could not be begun'),
        isConfirmed: false,
      })
  })
}

test('of what git says instead, no more is kept than its message may have', async () => {
  const { text } = await said(Buffer.alloc(1_000_000, 'x'), 5000)
  assert.ok(text.length < 100)
})

async function said(answer: Buffer, bytesAtOnce: number) {
  const output = new PassThrough()
  const { rest, isConfirmed } = sayHead(output)
  for (let at = 0; at < answer.length; at += bytesAtOnce) {
    rest.write(answer.subarray(at, at + bytesAtOnce))
  }
  rest.end()
  return { text: await textOf(output), isConfirmed: isConfirmed() }
}
