import { firstPacket } from './pkt-line.ts'

/** What of git's output may go to the client at once, and whether its report has begun. */
export type ReportSplitter = {
  /** Takes a piece of output; what of it comes before the report. */
  pass: (chunk: Buffer) => Buffer
  hasBegun: () => boolean
  /** The report, and all that came after it. */
  rest: () => Buffer
}

const progressBand = 2
const emptyPacketBytes = 5

/**
 * Splits what `git receive-pack` prints into progress and its report, which it writes once all refs have moved.
 * With side bands the report is in band 1; an empty packet of that band is a keepalive. Without, all of it is
 * the report. See "Report Status" in https://git-scm.com/docs/pack-protocol
 */
export function splitReport(hasSideBands: boolean): ReportSplitter {
  const rest: Buffer[] = []
  let unread: Buffer = Buffer.alloc(0)
  let hasBegun = false

  function pass(chunk: Buffer): Buffer {
    if (hasBegun || !hasSideBands) {
      hasBegun = true
      rest.push(chunk)
      return Buffer.alloc(0)
    }
    const bytes = unread.length === 0 ? chunk : Buffer.concat([unread, chunk])
    const end = endOfProgress(bytes)
    hasBegun = end.isReport
    if (hasBegun) rest.push(bytes.subarray(end.at))
    unread = hasBegun ? Buffer.alloc(0) : bytes.subarray(end.at)
    return bytes.subarray(0, end.at)
  }

  return {
    pass,
    hasBegun: () => hasBegun,
    rest: () => Buffer.concat([unread, ...rest]),
  }
}

function endOfProgress(bytes: Buffer): { at: number; isReport: boolean } {
  for (let at = 0; ; ) {
    const found = firstPacket(bytes.subarray(at))
    if (found === 'incomplete') return { at, isReport: false }
    // Git writes nothing malformed; should it, none of it comes before the pushed refs are finalized.
    if (found === 'malformed' || found.packet.kind !== 'data') return { at, isReport: true }
    const isKeepalive = found.length === emptyPacketBytes
    if (found.packet.payload[0] !== progressBand && !isKeepalive) return { at, isReport: true }
    at += found.length
  }
}
