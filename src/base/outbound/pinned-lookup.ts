import { isIPv6, type LookupFunction } from 'node:net'

/** Creates a `lookup` function that always returns the given addresses. */
export function pinnedLookup(addresses: readonly [string, ...string[]]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
  return (_host, { all }, answer) => {
    const [{ address, family } = { address: '', family: 4 }] = found
    if (all) answer(null, found)
    else answer(null, address, family)
  }
}
