import { noTags } from '../refs/peel-tags.ts'
import { zeroId } from '../refs/ref-name.ts'
import type { RefSnapshot } from '../refs/ref-snapshot.ts'
import { withCapabilities } from './fetch-advertisement.ts'
import { flushPacket, packet } from './pkt-line.ts'

/**
 * Builds the advertisement of `git receive-pack` in version 0, byte for byte, in few chunks: "Reference Discovery" in
 * https://git-scm.com/docs/pack-protocol
 */
export async function pushAdvertisement(
  snapshot: RefSnapshot,
  capabilities: string,
): Promise<Buffer[]> {
  const lines = await snapshot.lines({
    style: 'plain',
    prefixes: [''],
    symrefs: false,
    peeled: noTags,
  })
  const nothing = [packet(`${zeroId} capabilities^{}\0${capabilities}\n`), flushPacket]
  return withCapabilities(lines, capabilities) ?? nothing
}
