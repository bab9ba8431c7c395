import { connect } from 'node:net'
import type { Job, Observed } from './wire.ts'

// A minimal client in a separate process: it sends prepared requests over persistent connections, one at a time on
// each, and reads only the lengths of responses.

process.on('message', async (job: Job) => process.send?.(await work(job)))
process.on('disconnect', () => process.exit())

async function work({ port, connections, ms, requests }: Job): Promise<Observed> {
  const observed: Observed = { latencies: [], firstBytes: [], seconds: 0, bytes: 0 }
  const startedAt = performance.now()
  const untilMs = startedAt + ms
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const connection = open(port)
      // The first requests of a connection are not measured.
      if (ms > 0) for (const request of requests) await connection.ask(request)
      do {
        const askedAt = performance.now()
        let first = 0
        for (const request of requests) {
          const answer = await connection.ask(request)
          first = answer.firstByteAt - answer.askedAt
          observed.bytes = answer.bytes
        }
        observed.latencies.push(performance.now() - askedAt)
        observed.firstBytes.push(first)
      } while (performance.now() < untilMs)
      connection.close()
    }),
  )
  observed.seconds = (performance.now() - startedAt) / 1000
  return observed
}

type Answer = { askedAt: number; firstByteAt: number; bytes: number }

const attempts = 3

/** A persistent connection, opened again when a busy server has closed it. */
function open(port: number) {
  let connection = connectTo(port)
  return {
    async ask(request: string): Promise<Answer> {
      const askedAt = performance.now()
      for (let attempt = 1; ; attempt++) {
        try {
          return { ...(await connection.ask(request)), askedAt }
        } catch (error) {
          if (attempt === attempts || !connection.isUnanswered()) throw error
          connection = connectTo(port)
        }
      }
    },
    close: () => connection.close(),
  }
}

function connectTo(port: number) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  let answer = { firstByteAt: 0, bytes: 0 }
  let settle = Promise.withResolvers<typeof answer>()
  // The next request throws the failure.
  settle.promise.catch(() => {})
  const fail = (error: Error) => settle.reject(error)
  const read = createReader({
    onBody(bytes) {
      if (answer.bytes === 0) answer.firstByteAt = performance.now()
      answer.bytes += bytes
    },
    onEnd: () => settle.resolve(answer),
    fail,
  })
  socket.on('data', read)
  socket.on('error', fail)
  socket.on('close', () => fail(new Error(`The server at ${port} closed a connection.`)))
  return {
    ask(request: string) {
      answer = { firstByteAt: 0, bytes: 0 }
      if (socket.destroyed) return settle.promise
      settle = Promise.withResolvers()
      socket.write(request, 'latin1')
      return settle.promise
    },
    /** Whether it was closed before the first byte of a response. */
    isUnanswered: () => socket.destroyed && answer.bytes === 0,
    close: () => socket.destroy(),
  }
}

type Events = { onBody: (bytes: number) => void; onEnd: () => void; fail: (error: Error) => void }

/** Reads responses with a length or in chunks: RFC 9112. */
function createReader({ onBody, onEnd, fail }: Events): (data: Buffer) => void {
  let phase: 'head' | 'size' | 'body' | 'crlf' = 'head'
  let isChunked = false
  let isLast = false
  let left = 0
  let begun: Buffer = Buffer.alloc(0)

  /** Consumes the next part of the data, and returns the rest. */
  function next(data: Buffer): Buffer {
    if (phase === 'head') return line(data, '\r\n\r\n', beginBody)
    if (phase === 'size') return line(data, '\r\n', beginChunk)
    const taken = Math.min(left, data.length)
    left -= taken
    if (phase === 'body' && taken > 0) onBody(taken)
    if (left === 0) finish()
    return data.subarray(taken)
  }

  /** Reads up to a terminator, which may be split between chunks. */
  function line(data: Buffer, end: string, use: (text: string) => void): Buffer {
    const all = begun.length > 0 ? Buffer.concat([begun, data]) : data
    const length = all.indexOf(end, 0, 'latin1')
    begun = length < 0 ? all : Buffer.alloc(0)
    if (length < 0) return data.subarray(data.length)
    use(all.toString('latin1', 0, length))
    return all.subarray(length + end.length)
  }

  function beginBody(head: string) {
    if (!head.startsWith('HTTP/1.1 200')) fail(new Error(`A server answered ${head}`))
    isChunked = /^transfer-encoding: *chunked/im.test(head)
    left = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0)
    phase = isChunked ? 'size' : 'body'
    if (!isChunked && left === 0) finish()
  }

  function beginChunk(size: string) {
    left = Number.parseInt(size, 16)
    isLast = left === 0
    phase = isLast ? 'crlf' : 'body'
    if (isLast) left = 2
  }

  function finish() {
    if (isChunked && phase === 'body') {
      phase = 'crlf'
      left = 2
    } else if (isChunked && !isLast) phase = 'size'
    else {
      phase = 'head'
      onEnd()
    }
  }

  return (data) => {
    for (let rest = data; rest.length > 0; ) rest = next(rest)
  }
}
