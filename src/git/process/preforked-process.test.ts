import assert from 'node:assert/strict'
import type { Readable } from 'node:stream'
import { test } from 'node:test'
import { openPreforkedProcess, toOrder, toWord } from './preforked-process.ts'

const path = process.env.PATH ?? ''

async function textOf(stream: Readable): Promise<string> {
  let text = ''
  for await (const chunk of stream.setEncoding('utf8')) text += chunk
  return text
}

async function become(wanted: Parameters<typeof toOrder>[0]) {
  const preforked = openPreforkedProcess({ variables: { PATH: path, KEPT: 'kept' } })
  let errorOutput = ''
  preforked.listen((text) => {
    errorOutput += text
  })
  preforked.channel.write(toOrder(wanted))
  const output = await textOf(preforked.stdout)
  return { output, ...(await preforked.ended), errorOutput }
}

test('a preforked process executes a program with exactly the given words and variables', async () => {
  const odd = [
    '',
    ' a  b ',
    '\\n $HOME `id` "\'',
    'one\ntwo\n\nthree\n',
    '\n',
    'go',
    'Á…é\u0081\t\r',
    '-n',
  ]
  const words = odd.map((word) => `${word}|`)
  const { output } = await become({
    command: ['printf', '%s', ...words],
    variables: {},
  })
  assert.equal(output, words.join(''))
  const variables = { ODD: odd.join('='), OTHER: '' }
  const shown = await become({
    command: ['sh', '-c', 'printf %s "$ODD|$OTHER|$KEPT"'],
    variables,
  })
  assert.equal(shown.output, `${variables.ODD}||kept`)
})

test('a word can have any bytes but NUL', async () => {
  const bytes = Array.from({ length: 255 }, (_, index) => index + 1)
  const raw = Buffer.from([...bytes, 0xc3, 0xa9, 0xff]).toString('latin1')
  const { output } = await become({
    command: ['sh', '-c', 'printf %s "$1" | base64 -w 0', 'sh', toWord(raw)],
    variables: {},
  })
  assert.equal(Buffer.from(output, 'base64').toString('latin1'), raw)
  assert.equal(toWord(Buffer.from('Á…é').toString('latin1')), 'Á…é')
})

test('a preforked process applies its limits before it executes the program', async () => {
  const limits = { memoryMaxBytes: 512 * 1024 * 1024, fileMaxBytes: 1024 * 1024, cpuMaxSeconds: 7 }
  const command = ['sh', '-c', 'ulimit -d; ulimit -f; ulimit -S -t; ulimit -H -t; ulimit -c; nice']
  const limited = await become({ command, variables: {}, limits, isIdle: true })
  assert.equal(limited.output, '524288\n2048\n7\n8\n0\n19\n')
})

test('a program that exceeds its processor time is ended by SIGXCPU', async () => {
  const command = ['sh', '-c', 'while :; do :; done']
  const { exitCode, signal } = await become({
    command,
    variables: {},
    limits: { cpuMaxSeconds: 1 },
  })
  assert.deepEqual([exitCode, signal], [null, 'SIGXCPU'])
})

test('the channel belongs to the program after the order, and only the program reads its input', async () => {
  const preforked = openPreforkedProcess({ variables: { PATH: path } })
  const script = 'cat; IFS= read -r line <&3; echo "$line back" >&3'
  preforked.channel.write(toOrder({ command: ['sh', '-c', script], variables: {} }))
  preforked.channel.write('to and\n')
  preforked.stdin.end('through')
  // Both at once: Node discards output that is unread when the child ends.
  const [output, answer] = await Promise.all([textOf(preforked.stdout), textOf(preforked.channel)])
  assert.equal(output, 'through')
  assert.equal(answer, 'to and back\n')
})

test('a preforked process ends without a valid order', async () => {
  const missing = await become({ command: ['svc-no-such-program'], variables: {} })
  assert.equal(missing.exitCode, 127)
  assert.match(missing.errorOutput, /not found/)
  const preforked = openPreforkedProcess({ variables: { PATH: path } })
  preforked.listen(() => {})
  preforked.channel.destroy()
  assert.equal((await preforked.ended).exitCode, 1)
  assert.throws(() => toOrder({ command: ['a\0b'], variables: {} }), /NUL/)
})
