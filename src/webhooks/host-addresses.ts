import { createSemaphore } from '../concurrency/semaphore.ts'
import type { Outbound } from '../outbound/outbound.ts'

type Dependencies = {
  outbound: Pick<Outbound, 'resolve'>
  /** A time in milliseconds that only goes on. */
  now?: () => number
}

type Addresses = Awaited<ReturnType<Outbound['resolve']>>

const freshMs = 5000
const quickMs = 1000
const remembered = 1000
// Half of the names that the policy has looked up at once: the other half is for hosts that are known to be found.
const strangersAtOnce = 16

/**
 * The addresses of hosts, as the outbound policy has judged them some seconds ago at most. Names that are not found
 * soon wait for each other, and nobody else waits for them. Throws the Problems of the policy.
 */
export function createHostAddresses({ outbound, now = () => performance.now() }: Dependencies) {
  const known = new Map<string, { at: number; addresses: Addresses }>()
  const asking = new Map<string, Promise<Addresses>>()
  const strangers = createSemaphore(strangersAtOnce)
  const { signal } = new AbortController()

  async function ask(host: string): Promise<Addresses> {
    using _slot = known.has(host) ? undefined : await strangers.acquire(signal)
    const began = now()
    const found = await outbound.resolve(host).finally(() => known.delete(host))
    if (now() - began <= quickMs) known.set(host, { at: now(), addresses: found })
    for (const oldest of known.keys()) {
      if (known.size <= remembered) break
      known.delete(oldest)
    }
    return found
  }

  return async (host: string): Promise<Addresses> => {
    const last = known.get(host)
    if (last && now() - last.at < freshMs) return last.addresses
    const asked = asking.get(host)
    if (asked !== undefined) return asked
    const answer = ask(host).finally(() => asking.delete(host))
    asking.set(host, answer)
    return answer
  }
}
