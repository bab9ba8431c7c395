import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ProxySession } from './proxy-session.ts'
import { parseConnectTarget } from './proxy-target.ts'

/** Serves CONNECT: bytes in both directions, until both sides have ended. Throws a ProxyError before the first one. */
export async function openTunnel(
  { url = '' }: IncomingMessage,
  client: Duplex,
  head: Buffer,
  session: ProxySession,
): Promise<void> {
  const upstream = await session.connect(parseConnectTarget(url))
  client.write('HTTP/1.1 200 Connection established\r\n\r\n')
  if (head.length > 0) upstream.write(head)
  try {
    await Promise.all([pipeline(client, upstream), pipeline(upstream, client)])
  } catch {
    // Either side may end the connection at any time.
  } finally {
    client.destroy()
    upstream.destroy()
  }
}
