import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { covers, type HostRule } from '#base/outbound/host-rules.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import { connectPinned } from '#base/outbound/pinned-connect.ts'
import { formatTarget, ProxyError, type ProxyTarget, toProxyError } from './proxy-target.ts'

/** The hosts that a command may reach, and the log of its connections. */
export type HostAccess = {
  rules: readonly HostRule[]
  /** Records a line about a connection, which continues when the promise resolves. */
  log: (line: string) => Promise<void>
}

/** The connections of one command; all end when it is disposed. */
export type ProxySession = Disposable & {
  /** Destroys a connection with the session, or at once if that has ended. */
  own: (socket: Duplex) => void
  /** Connects to a host if that is allowed, and logs the result. Throws a ProxyError. */
  connect: (target: ProxyTarget) => Promise<Socket>
  log: HostAccess['log']
}

type Options = {
  access: HostAccess
  outbound: Pick<Outbound, 'resolve'>
  connectTimeoutMs: number
  /** How long a connection may be without any byte. */
  idleMs: number
}

export function openSession(options: Options): ProxySession {
  const { access, outbound, connectTimeoutMs, idleMs } = options
  const sockets = new Set<Duplex>()
  const end = new AbortController()

  function own(socket: Duplex): void {
    if (end.signal.aborted) {
      socket.destroy()
      return
    }
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  }

  async function open(target: ProxyTarget): Promise<Socket> {
    const { host, port } = target
    if (!access.rules.some((rule) => covers(rule, host, port))) {
      throw new ProxyError(403, 'The network of this step does not include it.')
    }
    const addresses = await outbound.resolve(host)
    end.signal.throwIfAborted()
    const socket = await connectPinned({
      protocol: 'http:',
      hostname: host,
      port,
      // The checked ones: a second lookup could give others.
      addresses,
      timeoutMs: connectTimeoutMs,
      signal: end.signal,
    })
    own(socket)
    return socket
  }

  // Nothing is logged once the command has ended.
  async function log(line: string): Promise<void> {
    if (!end.signal.aborted) await access.log(line)
  }

  return {
    own,
    log,

    async connect(target) {
      const name = formatTarget(target)
      try {
        const socket = await open(target)
        // Until a handler is added, an error must not end the process.
        socket.on('error', () => {})
        // All bytes of either direction pass here.
        socket.setTimeout(idleMs, () => socket.destroy())
        await log(`network: ${name} allowed`)
        return socket
      } catch (error) {
        const failure = toProxyError(error)
        const outcome = failure.status === 403 ? 'refused' : 'failed'
        await log(`network: ${name} ${outcome}: ${failure.message}`)
        throw failure
      }
    },

    [Symbol.dispose]() {
      end.abort(new Error('The step has ended.'))
      for (const socket of sockets) socket.destroy()
    },
  }
}
