import { connect, type OnReadOpts, type Socket } from 'node:net'
import { trimEndOf } from './trim-end.ts'

/** The start of a response: its status line, and its header fields by their names in lower case. */
export type ResponseHead = { status: string; headers: ReadonlyMap<string, string> }

export type BodyRequest = {
  /** The path with its query, encoded. */
  path: string
  headers: Record<string, string>
  /** The bytes of the body; undefined when the response is not the one that is wanted. */
  accept: (response: ResponseHead) => number | undefined
  /** Takes the next bytes, with their offset in the body; they are valid until it resolves. Two calls may overlap. */
  write: (bytes: Buffer, offset: number) => Promise<unknown>
  signal: AbortSignal
}

/**
 * An HTTP connection for large bodies. It reads into two buffers of its own in turn, and passes each on while it reads
 * into the other. A stream allocates a buffer for each read of the socket; to collect these takes more CPU time than to
 * read, write and hash the bytes.
 *
 * Measured: 256 MiB of an object store take 0.41 instead of 0.61 s of CPU time, and 0.5 instead of 0.85 s. Without it,
 * `getRange` of the object store and `receive` of the runner are served by their other client.
 */
export type BodyConnection = Disposable & {
  isClosed: () => boolean
  /**
   * Gets a body; one at a time. False when the response is not the one that is wanted: then nothing was written, the
   * connection is closed, and a complete HTTP client should repeat the request.
   */
  get: (request: BodyRequest) => Promise<boolean>
}

type Options = {
  /** The origin of an http server: what TLS has decrypted is delivered even while a socket is paused. */
  endpoint: string
  connectTimeoutMs: number
  /** Time without a byte of the response, or without a request. */
  timeoutMs: number
  /** Makes the error of a connection that "was closed", "timed out" or "is garbled". */
  toError: (reason: string) => Error
}

type Pending = BodyRequest & {
  /** Of the body; undefined until the head of the response has come. */
  received: number | undefined
  bodyBytes: number
  isLast: boolean
  resolve: (isReceived: boolean) => void
  reject: (error: unknown) => void
}

type BodyBuffer = { bytes: Buffer; writing: Promise<unknown> | undefined }

// For larger writes Linux looks for contiguous memory, which may take longer than copying the bytes.
const bufferBytes = 256 * 1024
const maxHeadBytes = 16_384
const headEnd = '\r\n\r\n'

export function openBodyConnection(options: Options): BodyConnection {
  const { connectTimeoutMs, timeoutMs, toError } = options
  const url = new URL(options.endpoint)
  const head = Buffer.alloc(maxHeadBytes)
  let headBytes = 0
  let pending: Pending | undefined
  const createBuffer = (): BodyBuffer => ({
    bytes: Buffer.allocUnsafeSlow(bufferBytes),
    writing: undefined,
  })
  let [current, other] = [createBuffer(), createBuffer()]
  let filled = 0
  const writeFailures: unknown[] = []

  const socket = openSocket(url, {
    buffer: nextPlace,
    callback(bytes) {
      if (pending?.received === undefined) addToHead(bytes)
      else addToBody(pending, bytes)
      // Reads no more until there is a buffer.
      return current.writing === undefined
    },
  })
  socket.setTimeout(connectTimeoutMs, () => fail(toError('timed out')))
  socket.once('connect', () => socket.setTimeout(timeoutMs))
  socket.on('error', fail)
  socket.on('close', close)

  function nextPlace(): Buffer {
    if (pending?.received === undefined) return head.subarray(headBytes)
    const rest = pending.bodyBytes - pending.received
    return current.bytes.subarray(filled, filled + rest)
  }

  function close(): void {
    fail(toError('was closed'))
  }

  function fail(error: unknown): void {
    socket.destroy()
    const failed = pending
    pending = undefined
    failed?.reject(error)
  }

  function settle({ resolve, isLast }: Pending, isReceived: boolean): void {
    pending = undefined
    headBytes = 0
    if (!isReceived || isLast) socket.destroy()
    resolve(isReceived)
  }

  function addToHead(bytes: number): void {
    headBytes += bytes
    const end = head.subarray(0, headBytes).indexOf(headEnd)
    if (!pending || (end === -1 && headBytes === maxHeadBytes)) {
      fail(toError('is garbled'))
      return
    }
    if (end === -1) return
    const response = toResponse(head.toString('latin1', 0, end))
    const body = head.subarray(end + headEnd.length, headBytes)
    const bodyBytes = isPlain(response) ? pending.accept(response) : undefined
    if (bodyBytes === undefined || body.length > bodyBytes) {
      settle(pending, false)
      return
    }
    pending.bodyBytes = bodyBytes
    pending.isLast = response.headers.get('connection')?.toLowerCase() === 'close'
    pending.received = 0
    body.copy(current.bytes)
    addToBody(pending, body.length)
  }

  function addToBody(request: Pending, bytes: number): void {
    const received = (request.received ?? 0) + bytes
    request.received = received
    filled += bytes
    const isComplete = received === request.bodyBytes
    if (filled === bufferBytes || isComplete) write(request, received - filled)
    if (isComplete) settle(request, true)
  }

  /** Passes the current buffer on, and reads on into the other one. */
  function write(request: BodyRequest, offset: number): void {
    const full = current
    const writing = request.write(full.bytes.subarray(0, filled), offset)
    full.writing = writing.then(
      () => {
        full.writing = undefined
        if (full === current) socket.resume()
      },
      (error) => {
        full.writing = undefined
        writeFailures.push(error)
        fail(error)
      },
    )
    current = other
    other = full
    filled = 0
  }

  return {
    isClosed: () => socket.destroyed,

    async get(request) {
      const { promise, resolve, reject } = Promise.withResolvers<boolean>()
      filled = 0
      pending = { ...request, received: undefined, bodyBytes: 0, isLast: false, resolve, reject }
      request.signal.addEventListener('abort', close)
      if (request.signal.aborted || socket.destroyed) close()
      else socket.write(toRequestHead(url, request))
      let isReceived: boolean
      try {
        isReceived = await promise
      } finally {
        request.signal.removeEventListener('abort', close)
        // Nothing is written later: another attempt may write to the same place.
        await Promise.all([current.writing, other.writing])
      }
      if (writeFailures.length > 0) throw writeFailures[0]
      return isReceived
    },

    [Symbol.dispose]: close,
  }
}

function openSocket({ hostname, port }: URL, onread: OnReadOpts): Socket {
  // Without the brackets of an IPv6 address.
  const host = hostname.replace(/^\[|\]$/g, '')
  return connect({ host, port: Number(port || 80), noDelay: true, onread })
}

function toRequestHead({ host }: URL, { path, headers }: BodyRequest): string {
  const lines = Object.entries({ ...headers, host }).map(([name, value]) => `${name}: ${value}\r\n`)
  return `GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
}

function toResponse(head: string): ResponseHead {
  const [status = '', ...lines] = head.split('\r\n')
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    if (colon === -1) continue
    const key = line.slice(0, colon).toLowerCase()
    const value = trimEndOf(line.slice(colon + 1).replace(/^[ \t]+/, ''), ' \t')
    headers.set(key, headers.has(key) ? `${headers.get(key)}, ${value}` : value)
  }
  return { status, headers }
}

/** Whether a body is sent as it is: RFC 9112, section 6.3. */
function isPlain({ status, headers }: ResponseHead): boolean {
  return (
    status.startsWith('HTTP/1.1 ') &&
    /^\d+$/.test(headers.get('content-length') ?? '') &&
    !headers.has('transfer-encoding') &&
    !headers.has('content-encoding')
  )
}
