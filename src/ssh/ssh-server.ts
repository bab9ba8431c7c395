import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { HostKey } from 'ssh2/lib/protocol/Protocol.js'
import type { Log } from '../base/log.ts'
import { networkOf } from '../base/network.ts'
import { createQuota } from '../concurrency/quota.ts'
import type { PlainSettings } from '../config/settings.ts'
import { createConnection, type SshSession } from './connection.ts'
import { toDisconnectPacket } from './disconnect-packet.ts'
import { disconnectReasons } from './messages.ts'
import { createRateLimitedLog } from './rate-limited-log.ts'
import { signatureAlgorithms } from './signature.ts'
import { createTransport } from './transport.ts'
import { createUnauthenticatedLimit } from './unauthenticated-limit.ts'
import { type AuthRequest, type AuthResult, createUserauth } from './userauth.ts'

type Options<Identity> = {
  settings: PlainSettings
  hostKey: HostKey
  log: Log
  /** The name whose connections are limited together. */
  nameOf: (identity: Identity) => string
  /** Authenticates a client whose signature is verified. */
  authenticate: (authRequest: AuthRequest, address: string) => Promise<AuthResult<Identity>>
  /** Runs a command and returns its exit code; never rejects. */
  serve: (session: SshSession<Identity>) => Promise<number>
}

const kexTimeoutMs = 30_000
const probeAfterMs = 30_000
const lingerMs = 1000
// Beyond this many, refused clients get no reason.
const maxRefused = 200
const stopping = 'The server is stopping'
const quotaTexts = {
  'per-key': 'You have too many connections; close some',
  overall: 'Too many connections; try again in a moment',
}

type Client = { isServing: () => boolean; end: (why: string) => void }
type Admitted = { address: string; client: Client; permit: Disposable }

/** An SSH server that runs svc's own commands and nothing else: RFC 4251 to 4254. */
export function createSshServer<Identity>(options: Options<Identity>) {
  const { settings, hostKey, log, nameOf, authenticate, serve } = options
  const unauthenticated = createUnauthenticatedLimit({
    perAddress: settings.sshUnauthenticatedPerAddress,
    overall: settings.sshUnauthenticated,
  })
  const clients = new Set<Client>()
  // A quarter per user, so that none can take all.
  const quota = createQuota({
    overall: settings.sshConnections,
    perKey: Math.max(1, Math.floor(settings.sshConnections / 4)),
  })
  const logLimited = createRateLimitedLog(log)
  let refused = 0
  let isStopping = false

  // Nagle's algorithm would delay every command by two round trips.
  const server = createServer(
    { noDelay: true, keepAlive: true, keepAliveInitialDelay: probeAfterMs },
    admit,
  )

  async function admit(socket: Socket): Promise<void> {
    const address = socket.remoteAddress ?? ''
    socket.on('error', () => {})
    const client: Client = { isServing: () => false, end: () => socket.destroy() }
    clients.add(client)
    socket.once('close', () => clients.delete(client))
    const onRevoked = () => client.end('Too many clients are authenticating')
    const permit = await unauthenticated.acquire(networkOf(address), onRevoked)
    if (!permit) return refuse(socket, address)
    if (socket.destroyed) permit[Symbol.dispose]()
    else serveClient(socket, { address, client, permit })
  }

  function refuse(socket: Socket, address: string): void {
    logLimited({ address }, 'ssh connection refused: too many')
    if (refused >= maxRefused) {
      socket.destroy()
      return
    }
    refused += 1
    socket.once('close', () => {
      refused -= 1
    })
    socket.end(toDisconnectPacket('Too many connections; try again in a moment'))
    // Unread data would reset the connection before the client reads this.
    socket.resume()
    setTimeout(() => socket.destroy(), lingerMs).unref()
  }

  function serveClient(socket: Socket, { address, client, permit }: Admitted): void {
    let layer: { receive: (payload: Buffer) => void } | undefined
    let connection: ReturnType<typeof createConnection<Identity>> | undefined
    let releaseQuota = () => {}

    const transport = createTransport(socket, {
      hostKey,
      signatureAlgorithms,
      kexTimeoutMs,
      onMessage: (payload) => layer?.receive(payload),
      onReady: () => connection?.wake(),
    })
    const loginTimer = setTimeout(() => {
      transport.end(disconnectReasons.byApplication, 'Authentication took too long')
    }, settings.sshLoginSeconds * 1000)
    const userauth = createUserauth({
      transport,
      tries: settings.sshLoginTries,
      authenticate: (authRequest) => authenticate(authRequest, address),
      onAccepted,
      onError: (error) => log.error({ err: error }, 'SSH authentication failed with an error'),
    })
    layer = userauth

    function onAccepted(identity: Identity): void {
      clearTimeout(loginTimer)
      permit[Symbol.dispose]()
      if (socket.destroyed) return
      const admitted = quota.acquire(nameOf(identity))
      if (typeof admitted === 'string') {
        transport.end(disconnectReasons.tooManyConnections, quotaTexts[admitted])
        return
      }
      releaseQuota = () => admitted[Symbol.dispose]()
      connection = createConnection({
        transport,
        identity,
        address,
        maxChannels: settings.sshChannels,
        idleMs: settings.sshIdleSeconds * 1000,
        flushMs: settings.gitStallSeconds * 1000,
        onIdle: () => {
          if (isStopping) setTimeout(endIfIdle, lingerMs).unref()
        },
        serve,
      })
      layer = connection
    }

    // A client that is done disconnects by itself; disconnected at once, it would report a failure.
    function endIfIdle(): void {
      if (!client.isServing()) client.end(stopping)
    }

    client.isServing = () => connection?.isServing() ?? false
    client.end = (why) => transport.end(disconnectReasons.byApplication, why)
    const gone = () => {
      clearTimeout(loginTimer)
      permit[Symbol.dispose]()
      connection?.abandon()
    }
    socket.once('end', gone)
    socket.once('close', () => {
      gone()
      releaseQuota()
      if (!connection) logLimited({ address, ...userauth.summary() }, 'ssh login failed')
    })
  }

  return {
    /** Starts to listen; returns the host and port. */
    listen: (port: number) => listenAt(server, { host: settings.sshHost, port, log }),

    /** Stops accepting clients, and resolves when the last command has ended; after the timeout, commands are cut off. */
    async stop(timeoutMs: number): Promise<void> {
      isStopping = true
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      for (const client of clients) if (!client.isServing()) client.end(stopping)
      using _cutOff = setTimeout(() => {
        for (const client of clients) client.end(stopping)
      }, timeoutMs)
      await closed
    },
  }
}

type Address = { host: string; port: number }

async function listenAt(
  server: Server,
  { host, port, log }: Address & { log: Log },
): Promise<Address> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  }).catch((error) => {
    const reason = error.code === 'EADDRINUSE' ? 'the port is in use' : error.message
    throw new Error(
      `SVC_SSH_HOST, SVC_SSH_PORT: cannot listen on ${host}, port ${port}: ${reason}; choose others, or SVC_SSH_PORT=off.`,
      { cause: error },
    )
  })
  server.on('error', (error) => log.error({ err: error }, 'SSH server error'))
  // A TCP server's address is neither null nor a path once it listens.
  const { address, family, port: actual } = server.address() as AddressInfo
  return { host: family === 'IPv6' ? `[${address}]` : address, port: actual }
}
