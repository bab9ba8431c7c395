import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHeadAndTail } from './limited-output.ts'

async function keep(maxBytes: number, chunks: string[]): Promise<string> {
  let output = ''
  const kept = createHeadAndTail({
    maxBytes,
    emit: async (text) => {
      output += text
    },
  })
  for (const chunk of chunks) await kept.push(Buffer.from(chunk))
  await kept.end()
  return output
}

test('output within the limit is unchanged', async () => {
  assert.equal(await keep(20, ['0123456789', '0123\n', '6789\n']), '01234567890123\n6789\n')
})

test('output beyond the limit is omitted between the head and the last whole lines', async () => {
  const lines = Array.from({ length: 50 }, (_, index) => `${String(index).padStart(3, '0')}\n`)
  const output = await keep(40, lines)
  assert.equal(
    output,
    `${lines.slice(0, 7).join('')}007\n`.slice(0, 30) +
      `\n… ${200 - 30 - 8} bytes omitted …\n048\n049\n`,
  )
})

test('one huge chunk keeps its start and its end', async () => {
  const output = await keep(16, [`start\n${'x'.repeat(1000)}\nend\n`])
  assert.match(output, /^start\nxxxxxx\n… 995 bytes omitted …\nend\n$/)
})
