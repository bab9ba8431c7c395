import { once } from 'node:events'
import { connect } from 'node:net'

/** A connection on which a test writes and reads HTTP/1.1 itself. */
export async function connectRaw(url: string, localAddress?: string) {
  const { hostname, port, host } = new URL(url)
  const socket = connect({
    host: hostname,
    port: Number(port),
    ...(localAddress && { localAddress }),
  })
  await once(socket, 'connect')
  let received = ''
  socket.on('error', () => {})
  socket.setEncoding('latin1').on('data', (text: string) => {
    received += text
  })
  const ended = new Promise<void>((resolve) => socket.on('close', () => resolve()))

  async function until<T>(find: (received: string) => T | undefined): Promise<T> {
    for (;;) {
      const found = find(received)
      if (found !== undefined) return found
      if (socket.closed) throw new Error(`Closed after ${JSON.stringify(received.slice(0, 2000))}`)
      const done = new AbortController()
      await Promise.race([once(socket, 'data', done).catch(() => {}), ended])
      done.abort()
    }
  }

  return {
    socket,

    /** Sends the head of a request. */
    request(line: string, headers: Record<string, string | number> = {}): void {
      const fields = Object.entries({ host, ...headers }).map((pair) => `${pair.join(': ')}\r\n`)
      socket.write(`${line} HTTP/1.1\r\n${fields.join('')}\r\n`)
    },

    /** Sends a piece of a chunked body; an empty one ends it. */
    chunk(piece: Buffer | string): void {
      socket.write(`${Buffer.byteLength(piece).toString(16)}\r\n`)
      socket.write(piece)
      socket.write('\r\n')
    },

    /** What has come so far, a character for each byte. */
    received: () => received,

    /** Waits for a number of bytes; fails when the connection closes before. */
    atLeast: (bytes: number) => until((text) => text.length >= bytes || undefined),

    /** Waits for a whole answer to the first request; fails when the connection closes before. */
    answer: () => until(parseAnswer),

    /** Waits until the connection is closed; what had come by then. */
    async end(): Promise<string> {
      await ended
      return received
    },

    [Symbol.dispose]: () => void socket.destroy(),
  }
}

/** The first final answer in what was received (RFC 9112, section 6), or undefined while it is incomplete. */
export function parseAnswer(received: string) {
  const text = received.replace(/^HTTP\/1.1 100 .*?\r\n\r\n/s, '')
  const [, head, rest] = /^(.*?\r\n)\r\n(.*)$/s.exec(text) ?? []
  if (head === undefined || rest === undefined) return undefined
  const body = /^transfer-encoding: chunked/im.test(head)
    ? joinChunks(rest)
    : toLength(rest, Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0))
  return body === undefined ? undefined : { status: Number(head.split(' ')[1]), head, body }
}

function toLength(rest: string, length: number): string | undefined {
  return rest.length < length ? undefined : rest.slice(0, length)
}

function joinChunks(rest: string): string | undefined {
  if (!rest.endsWith('0\r\n\r\n')) return undefined
  const pieces: string[] = []
  for (let at = 0; ; ) {
    const lineEnd = rest.indexOf('\r\n', at)
    const size = lineEnd === -1 ? Number.NaN : Number.parseInt(rest.slice(at, lineEnd), 16)
    if (size === 0) return pieces.join('')
    const start = lineEnd + 2
    // What looked like the last chunk was the content of one that is not yet complete.
    if (!(start + size <= rest.length)) return undefined
    pieces.push(rest.slice(start, start + size))
    at = start + size + 2
  }
}
