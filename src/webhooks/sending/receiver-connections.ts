import type { Socket } from 'node:net'
import type { Pool } from 'undici'
import type { Outbound } from '#base/outbound/outbound.ts'
import { connectPinned } from '#base/outbound/pinned-connect.ts'
import { maxWindow } from '../delivery-limits.ts'
import { connectSeconds } from './attempt-error.ts'
import { createHostAddresses } from './host-addresses.ts'
import { limitResponse } from './response-limit.ts'

/** A pool of connections to one receiver, held until disposed. */
type Connection = Disposable & { pool: Pool }

type Entry = { pool: Pool; users: number }
type Undici = typeof import('undici')

const keepAliveMs = 2000
const maxKeepAliveMs = 10_000
const maxHeaderBytes = 16_384
// The whole response, interim ones included; less is read of its body.
const maxResponseBytes = 256 * 1024

/**
 * Pools connections to receivers for a few seconds. A connection is reused only while its host resolves to the same
 * addresses and the outbound policy allows them.
 */
export function createConnections({ outbound }: { outbound: Pick<Outbound, 'of'> }) {
  const entries = new Map<string, Entry>()
  const addressesOf = createHostAddresses({ outbound })

  function openPool(Pool: Undici['Pool'], url: URL, addresses: [string, ...string[]]): Pool {
    const { protocol, hostname } = url
    const destination = {
      protocol,
      hostname: withoutBrackets(hostname),
      port: Number(url.port) || (protocol === 'https:' ? 443 : 80),
      addresses,
      timeoutMs: connectSeconds * 1000,
    }
    return new Pool(url.origin, {
      connections: maxWindow,
      pipelining: 1,
      allowH2: false,
      connect: (_options, done) => {
        connectPinned(destination).then(
          (socket) => done(null, acceptContinue(limitResponse(socket, maxResponseBytes))),
          (error) => done(error, null),
        )
      },
      // The attempt as a whole has a timeout.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: maxKeepAliveMs,
      maxHeaderSize: maxHeaderBytes,
    })
  }

  function dropUnused(key: string): void {
    const entry = entries.get(key)
    if (!entry || entry.users > 0 || entry.pool.stats.connected > 0) return
    entries.delete(key)
    void entry.pool.close()
  }

  return {
    /**
     * Acquires the connection pool for a URL, until disposed. The lookup of its host counts for `lookupKey`. Throws the Problems of
     * the outbound policy.
     */
    async open(url: URL, lookupKey: string): Promise<Connection> {
      // Loaded by the first delivery, since many servers never have one.
      const { Pool } = await import('undici')
      const addresses = await addressesOf(withoutBrackets(url.hostname), lookupKey)
      const key = `${url.origin} ${addresses.toSorted().join()}`
      let entry = entries.get(key)
      if (!entry) {
        entry = { pool: openPool(Pool, url, addresses), users: 0 }
        entries.set(key, entry)
        entry.pool.on('disconnect', () => dropUnused(key))
      }
      const { pool } = entry
      entry.users++
      return {
        pool,
        [Symbol.dispose]() {
          entry.users--
          dropUnused(key)
        },
      }
    },

    /** The number of receivers with connections. */
    count: () => entries.size,

    async [Symbol.asyncDispose]() {
      const pools = [...entries.values()].map(({ pool }) => pool)
      entries.clear()
      await Promise.all(pools.map((pool) => pool.destroy()))
    },
  }
}

function withoutBrackets(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '')
}

const status = Buffer.from('HTTP/1.1 100')
const headEnd = '\r\n\r\n'

/**
 * Lets a receiver send `100 Continue`, which RFC 9110 allows although the request does not ask for it. undici accepts any
 * other interim response, so it is given 102 instead.
 */
function acceptContinue(socket: Socket): Socket {
  const push = socket.push.bind(socket)
  let written = -1
  let isStart = false
  socket.push = (chunk, encoding) => {
    if (written !== socket.bytesWritten) isStart = true
    written = socket.bytesWritten
    for (let at = 0; isStart && Buffer.isBuffer(chunk); ) {
      if (!chunk.subarray(at, at + status.length).equals(status)) {
        isStart = false
        break
      }
      chunk[at + status.length - 1] = '2'.charCodeAt(0)
      const end = chunk.indexOf(headEnd, at)
      if (end === -1) break
      at = end + headEnd.length
      if (at === chunk.length) break
    }
    return push(chunk, encoding)
  }
  return socket
}
