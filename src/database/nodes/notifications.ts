import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import pg from 'pg'
import { createBackoff } from '#base/concurrency/backoff.ts'
import { createPoller } from '#base/concurrency/poller.ts'
import type { Log } from '#base/log.ts'
import type { Database } from '../database.ts'

type Options = { url: string; db: Database; own: string; log: Log }

type Notifications = {
  send: (message: string) => void
  onMessage: (listener: (message: string) => void) => void
  /** Receives messages until disposed, on a connection of its own. */
  listen: () => AsyncDisposable
}

const channel = 'svc'
// PostgreSQL's limit is 8,000 bytes.
const payloadMaxLength = 7000
const waitingMaxMessages = 1000
const reconnect = { firstMs: 100, maxMs: 5000 }
const connectTimeoutMs = 5000
const aliveIntervalMs = 10_000

/**
 * Messages between the nodes of a database by LISTEN and NOTIFY. They are sent outside transactions: one with NOTIFY
 * would take a lock of the whole database when it commits.
 */
export function createNotifications({ url, db, own, log }: Options): Notifications {
  const waiting = new Set<string>()
  const listeners: ((message: string) => void)[] = []
  const sender = createPoller({
    intervalMs: undefined,
    run: sendWaiting,
    onError: (error) => log.warn({ err: error }, 'other nodes could not be notified'),
  })

  async function sendWaiting(): Promise<void> {
    while (waiting.size > 0) {
      const messages: string[] = []
      let length = own.length
      for (const message of waiting) {
        length += JSON.stringify(message).length + 1
        if (length > payloadMaxLength) break
        messages.push(message)
        waiting.delete(message)
      }
      const payload = JSON.stringify([own, ...messages])
      await sql`select pg_notify(${channel}, ${payload})`.execute(db)
    }
  }

  function receive(payload: string | undefined): void {
    const [sender, ...messages] = parse(payload)
    if (sender === own) return
    for (const message of messages) for (const listener of listeners) listener(message)
  }

  async function keepListening(signal: AbortSignal): Promise<void> {
    const backoff = createBackoff(reconnect)
    while (!signal.aborted) {
      try {
        await listenOnce(signal, () => backoff.reset())
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error }, 'messages of other nodes are not received')
      }
      await backoff.pause(signal).catch(() => {})
    }
  }

  /** Listens until the connection ends; rejects when it breaks. */
  async function listenOnce(signal: AbortSignal, onListening: () => void): Promise<void> {
    const client = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: connectTimeoutMs,
      // A connection that no longer answers is noticed by its queries.
      query_timeout: connectTimeoutMs,
      application_name: 'svc',
    })
    const ended = Promise.withResolvers<void>()
    const onAbort = () => ended.resolve()
    client.on('error', ended.reject)
    client.on('end', () => ended.reject(new Error('The connection has ended.')))
    client.on('notification', ({ payload }) => receive(payload))
    signal.addEventListener('abort', onAbort)
    try {
      await client.connect()
      await client.query(`listen ${channel}`)
      onListening()
      await Promise.race([ended.promise, keepAlive(client, signal)])
    } finally {
      signal.removeEventListener('abort', onAbort)
      ended.promise.catch(() => {})
      await client.end().catch(() => {})
    }
  }

  return {
    send(message) {
      if (waiting.size >= waitingMaxMessages) return
      waiting.add(message)
      sender.wake()
    },

    onMessage: (listener) => void listeners.push(listener),

    listen() {
      const stopping = new AbortController()
      const listening = keepListening(stopping.signal)
      return {
        async [Symbol.asyncDispose]() {
          stopping.abort()
          await Promise.all([listening, sender[Symbol.asyncDispose]()])
        },
      }
    },
  }
}

async function keepAlive(client: pg.Client, signal: AbortSignal): Promise<void> {
  for (;;) {
    await sleep(aliveIntervalMs, undefined, { signal, ref: false })
    await client.query('select 1')
  }
}

/** The strings of a payload; none when it is not one of svc's. */
function parse(payload = '[]'): string[] {
  try {
    const values: unknown = JSON.parse(payload)
    return Array.isArray(values) ? values.filter((value) => typeof value === 'string') : []
  } catch {
    return []
  }
}
