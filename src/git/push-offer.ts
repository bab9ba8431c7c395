import { flushPacket, packet } from './pkt-line.ts'
import { zeroId } from './ref-name.ts'
import { readAllRefs } from './refs.ts'

/**
 * What `git receive-pack --http-backend-info-refs` prints, byte for byte: each ref, the first with the
 * capabilities. Undefined for a repository with so many loose refs that git reads them faster.
 * See "Reference Discovery" in https://git-scm.com/docs/pack-protocol
 */
export async function pushOffer(
  directory: string,
  capabilities: string,
): Promise<Buffer | undefined> {
  const refs = await readAllRefs(directory, looseAtMost, 'visible')
  if (refs === undefined) return undefined
  const names = [...refs.keys()].sort(byBytes)
  const [first = 'capabilities^{}', ...rest] = names
  return Buffer.concat([
    packet(`${refs.get(first) ?? zeroId} ${first}\0${capabilities}\n`),
    ...rest.map((name) => packet(`${refs.get(name)} ${name}\n`)),
    flushPacket,
  ])
}

const looseAtMost = 200

/** The capabilities in what receive-pack printed: what follows the first NUL, to the end of its line. */
export function capabilitiesIn(offer: string): string {
  return /\0([^\n]*)\n/.exec(offer)?.[1] ?? ''
}

// Git sorts refs by their bytes; the order of UTF-16 is another beyond U+D7FF.
function byBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other))
}
