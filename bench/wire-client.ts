import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { serverCores } from './isolation.ts'

/** A repository or another resource of a server. */
export type Target = {
  url: string
  authorization?: string | undefined
  cookie?: string | undefined
  /** Returns the CPU time of the server so far, in ms. */
  cpuMs: () => number
}

export type Request = { method: 'GET' | 'POST'; path: string; body?: Buffer; isV2?: boolean }

/** Requests to send one after another on each connection, repeatedly for a time; with 0 ms once. */
type Job = { connections: number; ms: number; requests: Request[] }

/** A job as the client process gets it: complete requests in Latin-1. */
type Message = { port: number; connections: number; ms: number; requests: string[] }

/** Passes through all requests, in ms; `bytes` is the size of the last body. */
type Observed = { latencies: number[]; firstBytes: number[]; seconds: number; bytes: number }

const agent = 'agent=git/2.39.5'
const delimiter = Buffer.from('0001')

/** The advertisement of version 2, and then the refs that begin with one of some prefixes; without any, all. */
export function listingRequests(...prefixes: string[]): Request[] {
  const body = Buffer.concat([
    ...['command=ls-refs\n', agent, 'object-format=sha1'].map(packet),
    delimiter,
    ...['peel\n', 'symrefs\n', ...prefixes.map((prefix) => `ref-prefix ${prefix}\n`)].map(packet),
    flushPacket,
  ])
  return [
    { method: 'GET', path: '/info/refs?service=git-upload-pack', isV2: true },
    { method: 'POST', path: '/git-upload-pack', body, isV2: true },
  ]
}

/** The first request of a push. */
export const pushAdvertisement: Request[] = [
  { method: 'GET', path: '/info/refs?service=git-receive-pack' },
]

/** The last request of a clone of some objects, with an optional depth. */
export function cloneRequest(wants: string | readonly string[], depth?: number): Request {
  const wanted = [wants].flat().map((id) => `want ${id}\n`)
  const options = ['no-progress', 'ofs-delta', ...wanted]
  const body = Buffer.concat([
    ...['command=fetch', agent, 'object-format=sha1'].map(packet),
    delimiter,
    ...[...options, ...(depth ? [`deepen ${depth}`] : []), 'done\n'].map(packet),
    flushPacket,
  ])
  return { method: 'POST', path: '/git-upload-pack', body, isV2: true }
}

/** The bytes of a request, in Latin-1. */
export function toText(
  { url, authorization, cookie }: Omit<Target, 'cpuMs'>,
  request: Request,
): string {
  const { host, pathname } = new URL(url)
  const { method, path, body, isV2 } = request
  const [, service = ''] = /(git-[a-z]+-pack)/.exec(path) ?? []
  const lines = [
    `${method} ${pathname}${path} HTTP/1.1`,
    `Host: ${host}`,
    'User-Agent: git/2.39.5',
    'Accept: */*',
    ...(authorization ? [`Authorization: ${authorization}`] : []),
    ...(cookie ? [`Cookie: ${cookie}`] : []),
    ...(isV2 ? ['Git-Protocol: version=2'] : []),
    ...(body
      ? [`Content-Type: application/x-${service}-request`, `Content-Length: ${body.length}`]
      : []),
  ]
  return `${lines.join('\r\n')}\r\n\r\n${body?.toString('latin1') ?? ''}`
}

/** Starts a client process that sends prepared requests, and reads only the lengths of responses. */
export function startWireClient({ onServerCores = false } = {}) {
  const node = [...(onServerCores ? ['taskset', '-c', serverCores] : []), process.execPath]
  const [execPath = '', ...execArgv] = node
  const child = fork(fileURLToPath(import.meta.url), { execPath, execArgv, detached: true })
  const ended = once(child, 'exit')
  const failed = ended.then((): never => {
    throw new Error('The client process ended.')
  })
  // An exit is a failure only for callers that wait.
  failed.catch(() => {})
  return {
    async run(target: Omit<Target, 'cpuMs'>, { requests, ...job }: Job): Promise<Observed> {
      const texts = requests.map((request) => toText(target, request))
      child.send({ ...job, port: Number(new URL(target.url).port), requests: texts })
      const [observed] = await Promise.race([once(child, 'message'), failed])
      return observed
    },
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect()
      await ended
    },
  }
}

// The rest runs in the client process, so that it costs nothing beside the server and is not delayed by the bench.
if (import.meta.main) {
  process.on('message', async (message: Message) => process.send?.(await runJob(message)))
  process.on('disconnect', () => process.exit())
}

async function runJob({ port, connections, ms, requests }: Message): Promise<Observed> {
  const observed: Observed = { latencies: [], firstBytes: [], seconds: 0, bytes: 0 }
  const startedAt = performance.now()
  const untilMs = startedAt + ms
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const connection = open(port)
      // The first requests of a connection are not measured.
      if (ms > 0) for (const request of requests) await connection.send(request)
      do {
        const passStartedAt = performance.now()
        let firstByte = 0
        for (const request of requests) {
          const timing = await connection.send(request)
          firstByte = timing.firstByteAt - timing.sentAt
          observed.bytes = timing.bytes
        }
        observed.latencies.push(performance.now() - passStartedAt)
        observed.firstBytes.push(firstByte)
      } while (performance.now() < untilMs)
      connection.close()
    }),
  )
  observed.seconds = (performance.now() - startedAt) / 1000
  return observed
}

type Timing = { sentAt: number; firstByteAt: number; bytes: number }

const maxAttempts = 3

/** A persistent connection, opened again when a busy server has closed it. */
function open(port: number) {
  let connection = connectTo(port)
  return {
    async send(request: string): Promise<Timing> {
      const sentAt = performance.now()
      for (let attempt = 1; ; attempt++) {
        try {
          return { ...(await connection.send(request)), sentAt }
        } catch (error) {
          if (attempt === maxAttempts || !connection.hasNoResponse()) throw error
          connection = connectTo(port)
        }
      }
    },
    close: () => connection.close(),
  }
}

function connectTo(port: number) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  let response = { firstByteAt: 0, bytes: 0 }
  let settle = Promise.withResolvers<typeof response>()
  // The next request throws the failure.
  settle.promise.catch(() => {})
  const fail = (error: Error) => settle.reject(error)
  const read = createReader({
    onBody(bytes) {
      if (response.bytes === 0) response.firstByteAt = performance.now()
      response.bytes += bytes
    },
    onEnd: () => settle.resolve(response),
    fail,
  })
  socket.on('data', read)
  socket.on('error', fail)
  socket.on('close', () => fail(new Error(`The server at ${port} closed a connection.`)))
  return {
    send(request: string) {
      response = { firstByteAt: 0, bytes: 0 }
      if (socket.destroyed) return settle.promise
      settle = Promise.withResolvers()
      socket.write(request, 'latin1')
      return settle.promise
    },
    /** Whether it was closed before the first byte of a response. */
    hasNoResponse: () => socket.destroyed && response.bytes === 0,
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
    if (!head.startsWith('HTTP/1.1 200')) fail(new Error(`A server responded ${head}`))
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
