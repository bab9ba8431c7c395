import type { Readable } from 'node:stream'
import { chunksOf } from '../process/chunks.ts'
import { firstPacket } from './pkt-line.ts'
import type { Body } from './request-body.ts'

/** Reads whether a client wants nothing after the advertisement: a flush packet. `body` is the whole body again. */
export async function readWish(body: Body): Promise<{ isNothing: boolean; body: Body }> {
  let begun = Buffer.alloc(0)
  while (firstPacket(begun) === 'incomplete') {
    const { value } = await body.next()
    if (!value) break
    begun = Buffer.concat([begun, value])
  }
  const found = firstPacket(begun)
  const isNothing = typeof found === 'object' && found.packet.kind === 'flush'
  return { isNothing, body: following(begun, body) }
}

async function* following(begun: Buffer, body: Body): Body {
  yield begun
  yield* body
}

/** Reads and drops git's advertisement, up to the first flush packet. */
export async function skipAdvertisement(output: Readable, signal: AbortSignal): Promise<void> {
  let rest = Buffer.alloc(0)
  for await (const chunk of chunksOf(output, signal)) {
    rest = Buffer.concat([rest, chunk])
    for (;;) {
      const found = firstPacket(rest)
      if (found === 'incomplete') break
      if (found === 'malformed') {
        output.unshift(rest)
        return
      }
      rest = rest.subarray(found.length)
      if (found.packet.kind !== 'flush') continue
      if (rest.length > 0) output.unshift(rest)
      return
    }
  }
}
