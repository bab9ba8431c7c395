import { withCapabilities } from './fetch-offer.ts'
import { flushPacket, packet } from './pkt-line.ts'
import { zeroId } from './ref-name.ts'
import type { RefSnapshots } from './ref-snapshots.ts'
import { noTags } from './tag-objects.ts'

/**
 * What `git receive-pack` begins with in version 0, byte for byte, in few pieces: each ref, the first with the
 * capabilities. Undefined where git must say it. See "Reference Discovery" in
 * https://git-scm.com/docs/pack-protocol
 */
export async function pushOffer(
  snapshots: RefSnapshots,
  directory: string,
  capabilities: string,
): Promise<Buffer[] | undefined> {
  const snapshot = await snapshots.of(directory)
  const lines = await snapshot?.lines({
    style: 'plain',
    prefixes: [''],
    symrefs: false,
    peeled: noTags,
  })
  if (!lines) return undefined
  const nothing = [packet(`${zeroId} capabilities^{}\0${capabilities}\n`), flushPacket]
  return withCapabilities(lines, capabilities) ?? nothing
}

/** The capabilities in what receive-pack printed: what follows the first NUL, to the end of its line. */
export function capabilitiesIn(offer: string): string {
  return /\0([^\n]*)\n/.exec(offer)?.[1] ?? ''
}
