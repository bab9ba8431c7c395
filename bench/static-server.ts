import { fork } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { confineServer } from './isolation.ts'
import { cloneRequest, listingRequests, type Request, type Target } from './wire-client.ts'

type Reply = { type: string; body: Uint8Array }

/** Recorded responses of a server. */
type Replies = { advertisement: Reply; listing: Reply; pack: Reply }

/**
 * A server that replays recorded responses: as fast as any server can be, and so the lower limit of the measured times.
 */
export async function startStaticServer(replies: Replies) {
  await using starting = new AsyncDisposableStack()
  const { prefix, cpuMs } = starting.use(confineServer())
  const [execPath = process.execPath, ...execArgv] = [...prefix, process.execPath]
  const program = fileURLToPath(import.meta.url)
  const child = fork(program, { execPath, execArgv, detached: true, serialization: 'advanced' })
  const ended = once(child, 'exit')
  starting.defer(async () => {
    if (child.connected) child.disconnect()
    await ended
  })
  child.send(replies)
  const [url] = await once(child, 'message')

  const running = starting.move()
  return { url: String(url), cpuMs, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

/** Records the responses of a server to a listing, and to a clone of a commit if one is named. */
export async function recordReplies(target: Target, commit?: string): Promise<Replies> {
  const [advertisement = empty, listing = empty] = await Promise.all(
    listingRequests().map((request) => record(target, request)),
  )
  const pack = commit ? await record(target, cloneRequest(commit)) : empty
  return { advertisement, listing, pack }
}

const empty: Reply = { type: 'text/plain', body: Buffer.alloc(0) }

async function record({ url, authorization }: Target, request: Request): Promise<Reply> {
  const { method, path, body } = request
  const response = await fetch(url + path, {
    method,
    headers: {
      'git-protocol': 'version=2',
      ...(authorization && { authorization }),
      ...(body && { 'content-type': 'application/x-git-upload-pack-request' }),
    },
    ...(body && { body: new Uint8Array(body) }),
  })
  if (!response.ok) throw new Error(`${method} ${url}${path} failed with ${response.status}.`)
  return { type: response.headers.get('content-type') ?? '', body: await response.bytes() }
}

// The rest runs in a separate process. It reads only the first line and the body of a request.
if (import.meta.main) {
  process.once('message', (replies: Replies) => serve(replies))
  process.on('disconnect', () => process.exit())
}

const headEnd = '\r\n\r\n'

function serve({ advertisement, listing, pack }: Replies): void {
  const responses = {
    advertisement: toResponse(advertisement),
    listing: toResponse(listing),
    pack: toResponse(pack),
  }
  const server = createServer({ noDelay: true }, (socket) => {
    let received = ''
    socket.setEncoding('latin1')
    socket.on('error', () => {})
    socket.on('data', (text: string) => {
      received += text
      for (;;) {
        const end = received.indexOf(headEnd) + headEnd.length
        if (end < headEnd.length) return
        const [, size = 0] = /^content-length: *(\d+)/im.exec(received.slice(0, end)) ?? []
        if (received.length < end + Number(size)) return
        const body = received.slice(end, end + Number(size))
        if (received.startsWith('GET')) socket.write(responses.advertisement)
        else socket.write(body.includes('command=ls-refs') ? responses.listing : responses.pack)
        received = received.slice(end + Number(size))
      }
    })
  })
  server.listen(0, '127.0.0.1', () => {
    // It listens on TCP, so it has an address of this form.
    const { port } = server.address() as AddressInfo
    process.send?.(`http://127.0.0.1:${port}/static.git`)
  })
}

function toResponse({ type, body }: Replies['pack']): Uint8Array {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), body])
}
