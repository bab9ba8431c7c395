import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { gzipSync } from 'node:zlib'
import type { Certificate } from './certificates.ts'

/** Handles a client that has connected and started to send. */
export type Behaviour = (socket: Socket) => void

const dripEveryMs = 100

/** Writes something again and again, for as long as there is a connection, never more than it takes. */
function forever(socket: Socket, text: string | Buffer): void {
  const more = () => {
    while (!socket.destroyed && socket.write(text));
  }
  socket.on('drain', more)
  more()
}

function drip(socket: Socket, text: string): void {
  const timer = setInterval(() => socket.write(text), dripEveryMs)
  socket.on('close', () => clearInterval(timer))
}

const head = (status: string, ...lines: string[]) =>
  `HTTP/1.1 ${[status, ...lines].join('\r\n')}\r\n\r\n`

// 64 MiB of nothing in 64 KiB.
const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024))

/** What receivers may do instead of answering. */
export const behaviours = {
  resets: (socket) => void socket.resetAndDestroy(),
  hangsUp: (socket) => void socket.end(),
  isSilent: () => {},
  drips: (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nx-drip: ')
    drip(socket, 'x')
  },
  dripsBody: (socket) => {
    socket.write(head('200 OK', 'content-length: 100000'))
    drip(socket, 'x')
  },
  endlessHeaders: (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n')
    forever(socket, `x-more: ${'x'.repeat(1000)}\r\n`)
  },
  endlessHints: (socket) => forever(socket, head('103 Early Hints', `link: </${'x'.repeat(500)}>`)),
  endlessReason: (socket) => {
    socket.write('HTTP/1.1 200 ')
    forever(socket, 'y'.repeat(65_536))
  },
  endlessBody: (socket) => {
    socket.write(head('200 OK', 'transfer-encoding: chunked'))
    forever(socket, `10000\r\n${'x'.repeat(65_536)}\r\n`)
  },
  endlessFailure: (socket) => {
    socket.write(head('500 Oh', 'transfer-encoding: chunked'))
    forever(socket, `10000\r\n${'x'.repeat(65_536)}\r\n`)
  },
  bomb: (socket) => {
    const about = ['content-encoding: gzip', `content-length: ${bomb.length}`]
    socket.write(head('200 OK', ...about))
    socket.end(bomb)
  },
  noHttp: (socket) => forever(socket, 'SSH-2.0-OpenSSH_9.2\r\n'),
  twoLengths: (socket) =>
    void socket.write(head('200 OK', 'content-length: 1', 'content-length: 2')),
  hugeLength: (socket) => void socket.write(head('200 OK', `content-length: ${'9'.repeat(30)}`)),
  lengthAndChunks: (socket) =>
    void socket.write(head('200 OK', 'content-length: 5', 'transfer-encoding: chunked')),
  noStatus: (socket) => void socket.write(head('000 OK', 'content-length: 0')),
  breaksOff: (socket) => {
    socket.write(head('200 OK', 'content-length: 100'))
    socket.end('half')
  },
} as const satisfies Record<string, Behaviour>

/** Listens, and behaves badly. */
export async function startHostile(behaviour: Behaviour, certificate?: Certificate) {
  const sockets = new Set<Socket>()
  const onSocket = (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => {})
    socket.once('data', () => {
      socket.resume()
      behaviour(socket)
    })
  }
  const server: Server = certificate
    ? createTlsServer(certificate, onSocket).on('tlsClientError', () => {})
    : createServer(onSocket)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // It listens on TCP.
  const { port } = server.address() as AddressInfo

  return {
    port,
    url: `${certificate ? 'https://localhost' : 'http://127.0.0.1'}:${port}/hook`,
    connections: () => sockets.size,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
