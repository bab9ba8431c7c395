import { firstPacket } from './pkt-line.ts'
import { type PushReport, parsePushReport } from './report-status.ts'

/** Separates git's output into progress, which is forwarded at once, and the report. */
export type ReportSplitter = {
  /** Takes a chunk of output; returns the part before the report. */
  pass: (chunk: Buffer) => Buffer
  hasBegun: () => boolean
  /** Returns the report if it is there to its end. */
  whole: () => PushReport | undefined
  /** Returns the report and everything after it. */
  rest: () => Buffer
}

const progressBand = 2
const emptyPacketBytes = 5

/**
 * Splits the output of `git receive-pack` into progress and the report, which git writes after all refs are updated.
 * With side bands the report is in band 1, where an empty packet is a keepalive; without, all output is the report.
 * See "Report Status" in https://git-scm.com/docs/pack-protocol
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
    whole() {
      if (!hasBegun) return undefined
      const report = parsePushReport(Buffer.concat(rest), hasSideBands)
      return report.isComplete ? report : undefined
    },
    rest: () => Buffer.concat([unread, ...rest]),
  }
}

function endOfProgress(bytes: Buffer): { at: number; isReport: boolean } {
  for (let at = 0; ; ) {
    const found = firstPacket(bytes.subarray(at))
    if (found === 'incomplete') return { at, isReport: false }
    // Malformed output, which git does not write, is held back like the report.
    if (found === 'malformed' || found.packet.kind !== 'data') return { at, isReport: true }
    const isKeepalive = found.length === emptyPacketBytes
    if (found.packet.payload[0] !== progressBand && !isKeepalive) return { at, isReport: true }
    at += found.length
  }
}
