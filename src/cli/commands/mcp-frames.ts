import { Transform, type Writable } from 'node:stream'

// The SDK gives up a connection whose message is longer.
const maxLength = 10 * 1024 * 1024

type Frame = {
  jsonrpc?: unknown
  id?: unknown
  method?: unknown
  result?: unknown
  error?: unknown
}

/** Passes on the frames of JSON-RPC, a line each, and answers those that are none, which the SDK ignores. */
export function createFrameCheck(output: Writable): Transform {
  let rest = ''
  return new Transform({
    decodeStrings: false,
    transform(chunk: Buffer | string, _encoding, done) {
      const lines = (rest + String(chunk)).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const fault = faultOf(line)
        if (fault) output.write(`${JSON.stringify({ jsonrpc: '2.0', ...fault })}\n`)
        else if (line.trim() !== '') this.push(`${line}\n`)
      }
      if (rest.length > maxLength) {
        this.push(rest)
        rest = ''
      }
      done()
    },
  })
}

function faultOf(line: string) {
  if (line.trim() === '') return undefined
  let frame: Frame
  try {
    const value: unknown = JSON.parse(line)
    frame = Object(value)
  } catch {
    return { id: null, error: { code: -32_700, message: 'The line is not JSON.' } }
  }
  const { id } = frame
  const isId = typeof id === 'string' || typeof id === 'number'
  const isCall = typeof frame.method === 'string'
  const isResponse = frame.result !== undefined || frame.error !== undefined
  if (frame.jsonrpc === '2.0' && (isId || id === undefined) && (isCall || isResponse))
    return undefined
  const message =
    'The line is not a message of JSON-RPC 2.0 with "method" and a text or number as "id".'
  return { id: isId ? id : null, error: { code: -32_600, message } }
}
