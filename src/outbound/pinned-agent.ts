import { type Agent, Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { isIPv6, type LookupFunction } from 'node:net'

/** What connects to one host, and only to addresses of it that were found before. */
export function pinnedAgent(protocol: string, addresses: [string, ...string[]]): Agent {
  const found = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
  const lookup: LookupFunction = (_host, { all }, answer) => {
    const [{ address, family } = { address: '', family: 4 }] = found
    if (all) answer(null, found)
    else answer(null, address, family)
  }
  const options = { keepAlive: true, lookup }
  return protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options)
}
