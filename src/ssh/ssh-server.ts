import { randomBytes } from 'node:crypto'
import type { Server, Socket } from 'node:net'
import type { HostKey } from 'ssh2/lib/protocol/Protocol.js'
import { createConnectionLimit } from '#base/concurrency/connection-limit.ts'
import { createTaskGroup } from '#base/concurrency/task-group.ts'
import type { Log } from '#base/log.ts'
import { createRateLimitedLog } from '#base/rate-limited-log.ts'
import type { PlainSettings } from '#config/settings.ts'
import { createConnection, type SshSession } from './connection.ts'
import { disconnectReasons, messages, softwareName } from './messages.ts'
import { signatureAlgorithms } from './signature.ts'
import { createTransport } from './transport.ts'
import { type AuthRequest, type AuthResult, createUserauth } from './userauth.ts'
import { message, writeUint32 } from './wire.ts'

type Options<Identity> = {
  settings: PlainSettings
  hostKey: HostKey
  log: Log
  /** The name under which a client's connections are counted for the limit per user. */
  nameOf: (identity: Identity) => string
  /** Authenticates a client whose signature is verified. */
  authenticate: (authRequest: AuthRequest, address: string) => Promise<AuthResult<Identity>>
  /** Runs a command and returns its exit code; never rejects. */
  serve: (session: SshSession<Identity>) => Promise<number>
}

const kexTimeoutMs = 30_000
const probeAfterMs = 30_000
const lingerMs = 1000
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
  const clients = new Set<Client>()
  const connections = createTaskGroup()
  const logLimited = createRateLimitedLog(log)
  const limit = createConnectionLimit({
    connections: settings.sshConnections,
    unauthenticated: settings.sshUnauthenticated,
    unauthenticatedPerAddress: settings.sshUnauthenticatedPerAddress,
    refuse: (socket) =>
      socket.end(toDisconnectPacket('Too many connections; try again in a moment')),
    onRefused: (address) => logLimited({ address }, 'ssh connection refused: too many'),
  })
  let listener: Server | undefined
  let isStopping = false

  async function admit(socket: Socket): Promise<void> {
    const address = socket.remoteAddress ?? ''
    socket.on('error', () => {})
    if (isStopping) return void socket.destroy()
    if (!limit.accept(socket)) return
    // Nagle's algorithm would delay every command by two round trips.
    socket.setNoDelay(true).setKeepAlive(true, probeAfterMs)
    const client: Client = { isServing: () => false, end: () => socket.destroy() }
    clients.add(client)
    const closed = new Promise((resolve) => socket.once('close', resolve))
    void connections.add(closed).then(() => clients.delete(client))
    const onRevoked = () => client.end('Too many clients are authenticating')
    const permit = await limit.authenticating({ address, onRevoked })
    if (!permit) return limit.refuse(socket, address)
    if (socket.destroyed) permit[Symbol.dispose]()
    else serveClient(socket, { address, client, permit })
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
      const admitted = limit.ofUser(nameOf(identity))
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
        stallMs: settings.gitStallSeconds * 1000,
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
    /** Takes over a listening server, which `stop` will close. */
    listen(server: Server): void {
      listener = server
      server.on('connection', admit)
      server.on('error', (error) => log.error({ err: error }, 'SSH server error'))
    },

    /** Takes over a client that another server has accepted and not read from. */
    admit,

    /** Stops accepting clients, and resolves when the last command has ended; after the timeout, commands are cut off. */
    async stop(timeoutMs: number): Promise<void> {
      isStopping = true
      listener?.close()
      for (const client of clients) if (!client.isServing()) client.end(stopping)
      using _cutOff = setTimeout(() => {
        for (const client of clients) client.end(stopping)
      }, timeoutMs)
      await connections.settled()
    },
  }
}

const blockBytes = 8
const minPadding = 4

/** Identification and an unencrypted SSH_MSG_DISCONNECT, for a client that is refused before the key exchange. */
function toDisconnectPacket(why: string): Buffer {
  const payload = message(messages.disconnect, disconnectReasons.tooManyConnections, why, '')
  return Buffer.concat([Buffer.from(`SSH-2.0-${softwareName}\r\n`), toPacket(payload)])
}

/** An unencrypted packet: RFC 4253, section 6. */
function toPacket(payload: Buffer): Buffer {
  const unpadded = 4 + 1 + payload.length + minPadding
  const padding = minPadding + (-unpadded & (blockBytes - 1))
  return Buffer.concat([
    writeUint32(1 + payload.length + padding),
    Buffer.of(padding),
    payload,
    randomBytes(padding),
  ])
}
