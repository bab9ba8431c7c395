import type { Pool } from 'undici'
import type { Outbound } from '../outbound/outbound.ts'
import { connectPinned } from '../outbound/pinned-connect.ts'
import { connectSeconds } from './attempt-error.ts'
import { windowMost } from './delivery-limits.ts'
import { createHostAddresses } from './host-addresses.ts'
import { limitResponse } from './response-limit.ts'

/** The connections to one receiver, while they are used. */
type Open = Disposable & { pool: Pool }

type Entry = { pool: Pool; users: number }
type Undici = typeof import('undici')

const idleMs = 2000
const idleMostMs = 10_000
const headersMost = 16_384
// All of an answer, with what comes before its head; of its body less is read.
const answerMost = 256 * 1024

/**
 * Connections to receivers, which are used again for some seconds: but only those to addresses that the host has now and
 * that are allowed now.
 */
export function createConnections({ outbound }: { outbound: Pick<Outbound, 'resolve'> }) {
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
      connections: windowMost,
      pipelining: 1,
      allowH2: false,
      connect: (_options, done) => {
        connectPinned(destination).then(
          (socket) => done(null, limitResponse(socket, answerMost)),
          (error) => done(error, null),
        )
      },
      // An attempt as a whole has its time.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: idleMs,
      keepAliveMaxTimeout: idleMostMs,
      maxHeaderSize: headersMost,
    })
  }

  function dropUnused(key: string): void {
    const entry = entries.get(key)
    if (!entry || entry.users > 0 || entry.pool.stats.connected > 0) return
    entries.delete(key)
    void entry.pool.close()
  }

  return {
    /** Opens what leads to an address, to be disposed of after use. Throws the Problems of the outbound policy. */
    async open(url: URL): Promise<Open> {
      // Loaded by the first delivery: many servers never make one.
      const { Pool } = await import('undici')
      const addresses = await addressesOf(withoutBrackets(url.hostname))
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

    /** Of how many receivers there are connections. */
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
