import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { HostKey } from 'ssh2/lib/protocol/Protocol.js'
import type { Log } from '../base/log.ts'
import type { PlainSettings } from '../config/settings.ts'
import { createConnection, type Session } from './connection.ts'
import { disconnectReasons } from './messages.ts'
import { signatureAlgorithms } from './signature.ts'
import { createTransport } from './transport.ts'
import { type Claim, createUserauth, type Verdict } from './userauth.ts'

type Options<Identity> = {
  settings: PlainSettings
  hostKey: HostKey
  log: Log
  /** Decides who a client is, by a claim that is proven. */
  decide: (claim: Claim, address: string) => Promise<Verdict<Identity>>
  /** Runs what a client asks for; its exit code. Never fails. */
  serve: (session: Session<Identity>) => Promise<number>
}

const kexTimeoutMs = 30_000
const probeAfterMs = 30_000
const stopping = 'The server is stopping'

/** An SSH server for whoever may run commands of ours, and nothing else: RFC 4251 to 4254. */
export function createSshServer<Identity>(options: Options<Identity>) {
  const { settings, hostKey, log, decide, serve } = options
  const unknown = new Map<string, number>()
  const clients = new Set<{ isServing: () => boolean; end: (why: string) => void }>()
  let unknownTotal = 0
  let isStopping = false

  // Nagle's delay of small packets would cost two of a client's waits in every command.
  const server = createServer(
    { noDelay: true, keepAlive: true, keepAliveInitialDelay: probeAfterMs },
    admit,
  )

  function admit(socket: Socket): void {
    const address = socket.remoteAddress ?? ''
    const refusal = refusalOf(address)
    if (refusal) {
      socket.on('error', () => {})
      // A line before the identification, as RFC 4253, section 4.2, allows and clients show.
      socket.end(`${refusal}\r\n`, () => socket.destroy())
      return
    }
    talk(socket, address)
  }

  function refusalOf(address: string): string | undefined {
    if (clients.size >= settings.sshConnections) return 'Too many connections; try again later.'
    if (unknownTotal >= settings.sshUnauthenticated) {
      return 'Too many connections that have not authenticated; try again later.'
    }
    if ((unknown.get(address) ?? 0) >= settings.sshUnauthenticatedPerAddress) {
      return 'Too many connections from your address that have not authenticated; try again later.'
    }
    return undefined
  }

  function talk(socket: Socket, address: string): void {
    const known = countUnknown(address)
    let layer: { receive: (payload: Buffer) => void } | undefined
    let connection: ReturnType<typeof createConnection<Identity>> | undefined

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

    layer = createUserauth({
      transport,
      tries: settings.sshLoginTries,
      decide: (claim) => decide(claim, address),
      onAccepted,
      onFault: (error) => log.error({ err: error }, 'an SSH client could not be identified'),
    })

    function onAccepted(identity: Identity): void {
      clearTimeout(loginTimer)
      known()
      if (socket.destroyed) return
      connection = createConnection({
        transport,
        identity,
        channelsMost: settings.sshChannels,
        commandMaxBytes: settings.sshCommandMaxBytes,
        idleMs: settings.sshIdleSeconds * 1000,
        flushMs: settings.gitStallSeconds * 1000,
        onIdle: () => {
          if (isStopping) client.end(stopping)
        },
        serve,
      })
      layer = connection
    }

    const client = {
      isServing: () => connection?.isServing() ?? false,
      end: (why: string) => transport.end(disconnectReasons.byApplication, why),
    }
    clients.add(client)
    const gone = () => {
      clearTimeout(loginTimer)
      known()
      connection?.abandon()
    }
    socket.once('end', gone)
    socket.once('close', () => {
      gone()
      clients.delete(client)
    })
  }

  /** Counts a client among those not known yet; what is returned takes it out, once. */
  function countUnknown(address: string): () => void {
    unknown.set(address, (unknown.get(address) ?? 0) + 1)
    unknownTotal += 1
    let isCounted = true
    return () => {
      if (!isCounted) return
      isCounted = false
      unknownTotal -= 1
      const left = (unknown.get(address) ?? 1) - 1
      if (left === 0) unknown.delete(address)
      else unknown.set(address, left)
    }
  }

  return {
    /** Starts to listen; the host and port that it got. */
    async listen(port: number): Promise<{ host: string; port: number }> {
      const host = settings.sshHost
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
      server.on('error', (error) => log.error({ err: error }, 'the SSH server has a fault'))
      // A TCP server's address is neither null nor a path once it listens.
      const { address, family, port: got } = server.address() as AddressInfo
      return { host: family === 'IPv6' ? `[${address}]` : address, port: got }
    },

    /** Takes no new clients and ends when the last command does; those that last longer are cut off. */
    async stop(timeoutMs: number): Promise<void> {
      isStopping = true
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      for (const client of clients) if (!client.isServing()) client.end(stopping)
      const timer = setTimeout(() => {
        for (const client of clients) client.end(stopping)
      }, timeoutMs)
      await closed
      clearTimeout(timer)
    },
  }
}
