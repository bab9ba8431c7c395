import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { pinnedLookup } from './pinned-lookup.ts'

type Destination = {
  protocol: string
  /** A name, or an address without brackets. */
  hostname: string
  port: number
  /** The addresses of the host that were checked. */
  addresses: readonly [string, ...string[]]
  timeoutMs: number
  /** Aborted to give up. */
  signal?: AbortSignal
}

/** Connecting took too long. */
export class ConnectTimeoutError extends Error {
  override readonly name = 'ConnectTimeoutError'
}

/** Connects to a host at one of the checked addresses. For https, this includes TLS and the check of the certificate. */
export async function connectPinned(destination: Destination): Promise<Socket> {
  const { protocol, hostname, port, addresses, timeoutMs, signal } = destination
  const [first] = addresses
  const isAddress = isIP(hostname) !== 0
  const where = { host: isAddress ? first : hostname, port, lookup: pinnedLookup(addresses) }
  const isTls = protocol === 'https:'
  const socket = isTls
    ? connectTls({
        ...where,
        ALPNProtocols: ['http/1.1'],
        // SNI has no IP addresses; the certificate is checked all the same.
        ...(!isAddress && { servername: hostname }),
      })
    : connectTcp(where)
  socket.setNoDelay(true)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  using _timer = setTimeout(() => reject(new ConnectTimeoutError()), timeoutMs)
  socket.once(isTls ? 'secureConnect' : 'connect', resolve)
  socket.once('error', reject)
  socket.once('close', () => reject(new Error('The connection was closed.')))
  const onAbort = () => reject(signal?.reason)
  if (signal?.aborted) onAbort()
  signal?.addEventListener('abort', onAbort)
  try {
    await promise
    socket.removeListener('error', reject)
    return socket
  } catch (error) {
    socket.on('error', () => {}).destroy()
    throw error
  } finally {
    signal?.removeEventListener('abort', onAbort)
  }
}
