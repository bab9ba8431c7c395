import { type Agent, Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { pinnedLookup } from './pinned-lookup.ts'

/** An agent that connects to one host, only at the given addresses. */
export function pinnedAgent(protocol: string, addresses: [string, ...string[]]): Agent {
  const options = { keepAlive: true, lookup: pinnedLookup(addresses) }
  return protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options)
}
