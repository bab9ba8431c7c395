import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import ssh2, { type Connection, type Login, type Session } from 'ssh2'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { spawnGit } from './git.ts'

/** A host that tests stand up on loopback; its connections end with it. */
export type RemoteHost = { port: number; [Symbol.dispose]: () => void }

const type = 'application/x-git-upload-pack'

/** Serves the responses of a test over HTTP, or over HTTPS with a key and a certificate. */
export async function startHttpHost(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  tls?: { key: string; cert: string },
): Promise<RemoteHost> {
  const server: Server = tls ? createHttpsServer(tls, answer) : createHttpServer(answer)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: portOf(server),
    [Symbol.dispose]() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** Accepts connections, and leaves what happens on them to a test. */
export async function startTcpHost(accept: (socket: Socket) => void): Promise<RemoteHost> {
  const sockets = new Set<Socket>()
  const server = createTcpServer((socket) => {
    sockets.add(socket)
    // A client that has enough hangs up.
    socket.on('error', () => {})
    accept(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: portOf(server),
    [Symbol.dispose]() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** Serves a repository over SSH with real git to those whom a test lets in. */
export async function startSshHost({
  hostKey,
  port = 0,
  banner,
  login,
  repository,
}: {
  /** A private key as PEM. */
  hostKey: string
  port?: number
  banner?: string
  login: (login: Login) => void
  repository: string
}): Promise<RemoteHost> {
  const open = new Set<Connection>()
  const config = { hostKeys: [hostKey], ...(banner !== undefined && { banner }) }
  const server = new ssh2.Server(config, (connection) => {
    open.add(connection)
    connection.on('error', () => {})
    connection.on('authentication', login)
    connection.on('session', (accept: () => Session) => {
      accept().on('exec', (acceptExec: () => Duplex & { exit(code: number): void }) => {
        const channel = acceptExec()
        const git = spawnGit('/', ['upload-pack', '--strict', repository])
        channel.pipe(git.stdin)
        git.stdout.pipe(channel, { end: false })
        git.on('close', (code) => {
          channel.exit(code ?? 1)
          channel.end()
        })
      })
    })
  })
  const listening = Promise.withResolvers<void>()
  server.listen(port, '127.0.0.1', () => listening.resolve())
  await listening.promise
  return {
    port: server.address().port,
    [Symbol.dispose]() {
      server.close()
      for (const connection of open) connection.end()
    },
  }
}

/** Answers as a smart HTTP server does for a repository: gitprotocol-http(5). */
export function serving(repository: string) {
  return (request: IncomingMessage, response: ServerResponse): void => {
    serveGit(request, response, repository).catch(() => response.destroy())
  }
}

async function serveGit(
  request: IncomingMessage,
  response: ServerResponse,
  repository: string,
): Promise<void> {
  const isAdvertisement = request.method === 'GET'
  const option = isAdvertisement ? '--http-backend-info-refs' : '--stateless-rpc'
  const git = spawnGit('/', ['upload-pack', '--strict', option, repository])
  response.setHeader('content-type', `${type}-${isAdvertisement ? 'advertisement' : 'result'}`)
  if (isAdvertisement) {
    git.stdin.end()
    response.write(smartStart)
  } else if (request.headers['content-encoding'] === 'gzip') {
    pipeline(request, createGunzip(), git.stdin).catch(() => {})
  } else {
    pipeline(request, git.stdin).catch(() => {})
  }
  await pipeline(git.stdout, response).catch(() => git.kill())
}

/**
 * Serves the repositories below a folder with git-http-backend(1) as a CGI program, by a server of HTTP/1.0 (RFC 1945): it
 * knows neither chunks nor connections that stay open.
 */
export function startCgiHost(folder: string): Promise<RemoteHost> {
  return startTcpHost((socket) => {
    let received = Buffer.alloc(0)
    const take = (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      const end = received.indexOf('\r\n\r\n')
      if (end === -1) return
      const [line = '', ...lines] = received.toString('latin1', 0, end).split('\r\n')
      const headers = new Map(
        lines.map((header) => {
          const [name = '', ...value] = header.split(':')
          return [name.toLowerCase(), value.join(':').trim()] as const
        }),
      )
      const length = headers.get('content-length')
      if (line.startsWith('POST') && length === undefined) {
        return void socket.end('HTTP/1.0 411 Length Required\r\n\r\n')
      }
      const body = received.subarray(end + 4)
      if (body.length < Number(length ?? 0)) return
      socket.off('data', take)
      runCgi(folder, { line, headers, body }, socket)
    }
    socket.on('data', take)
  })
}

type CgiRequest = { line: string; headers: Map<string, string>; body: Buffer }

function runCgi(folder: string, { line, headers, body }: CgiRequest, socket: Socket): void {
  const [method = '', address = ''] = line.split(' ')
  const [path = '', query = ''] = address.split('?')
  // RFC 3875: a header that is not there has no variable.
  const variables = {
    REQUEST_METHOD: method,
    PATH_INFO: path,
    QUERY_STRING: query,
    CONTENT_TYPE: headers.get('content-type'),
    CONTENT_LENGTH: headers.get('content-length'),
    HTTP_CONTENT_ENCODING: headers.get('content-encoding'),
    GIT_PROTOCOL: headers.get('git-protocol'),
  }
  const program = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: folder,
      GIT_HTTP_EXPORT_ALL: '1',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      ...Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined)),
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  program.stdin.on('error', () => {})
  program.stdin.end(body)
  socket.write('HTTP/1.0 200 OK\r\n')
  pipeline(program.stdout, socket).catch(() => program.kill())
}

/** What smart HTTP begins with. */
export const smartStart = Buffer.concat([packet('# service=git-upload-pack\n'), flushPacket])

/** An advertisement of version 0 with its first ref: gitprotocol-pack(5). */
export function advertised(
  refs: [name: string, id: string][],
  capabilities = 'side-band-64k ofs-delta',
): Buffer {
  const lines = refs.map(([name, id], index) =>
    packet(`${id} ${name}${index === 0 ? `\0${capabilities}` : ''}\n`),
  )
  return Buffer.concat([...lines, flushPacket])
}

function portOf(server: { address(): AddressInfo | string | null }): number {
  // A TCP server's address is neither null nor a path once it listens.
  return (server.address() as AddressInfo).port
}
