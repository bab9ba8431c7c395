import { firstPacket, flushPacket, type Packet, packet } from './pkt-line.ts'

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

/** What `git receive-pack` says at the end of a push. */
export type PushReport = {
  /** Why the pack was not accepted; undefined when it was. */
  unpackError: string | undefined
  /** By ref: why its update was refused. */
  refusals: Map<string, string>
  /** The text for the client's terminal. */
  text: string
  /** The message that ended the push; undefined when it came to its report. */
  fatal: string | undefined
  /** Whether it is there to its end. */
  isComplete: boolean
}

/**
 * Parses the output of a push with `report-status`, and `side-band-64k` unless said otherwise: "Report Status" in
 * https://git-scm.com/docs/pack-protocol
 */
export function parsePushReport(output: Buffer, hasSideBands = true): PushReport {
  const bands: Record<number, Buffer[]> = { 1: hasSideBands ? [] : [output], 2: [], 3: [] }
  const payloads = hasSideBands ? readPackets(output).payloads : []
  for (const payload of payloads) bands[payload[0] ?? 0]?.push(payload.subarray(1))
  const textOf = (band: number) => Buffer.concat(bands[band] ?? []).toString('utf8')
  const report = readPackets(Buffer.concat(bands[1] ?? []))
  const lines = report.payloads.map((line) => line.toString('utf8').replace(/\n$/, ''))
  const [, unpacked] = /^unpack (.*)$/s.exec(lines[0] ?? '') ?? []
  const refusals = new Map<string, string>()
  for (const line of lines) {
    const [, ref, reason] = /^ng (\S+) ?(.*)$/s.exec(line) ?? []
    if (ref !== undefined) refusals.set(ref, reason ?? '')
  }
  return {
    unpackError: unpacked === 'ok' ? undefined : unpacked,
    refusals,
    text: textOf(2),
    fatal: textOf(3) || undefined,
    isComplete: unpacked !== undefined && report.isEnded,
  }
}

/** The report of a push whose pack was accepted, in band 1: why the update of each ref was refused, if it was. */
export function reportOf(refusals: ReadonlyMap<string, string | undefined>): Buffer {
  const lines = [...refusals].map(([ref, refusal]) =>
    packet(refusal === undefined ? `ok ${ref}\n` : `ng ${ref} ${refusal}\n`),
  )
  const report = [packet('unpack ok\n'), ...lines, flushPacket]
  return packet(Buffer.concat([Buffer.from([1]), ...report]))
}

/** The payloads of packets, and whether a flush packet ends them. */
function readPackets(bytes: Buffer): { payloads: Buffer[]; isEnded: boolean } {
  const payloads: Buffer[] = []
  let isEnded = false
  for (let rest = bytes; rest.length > 0; ) {
    const found: { packet: Packet; length: number } | 'incomplete' | 'malformed' = firstPacket(rest)
    if (typeof found === 'string') break
    if (found.packet.kind === 'data') payloads.push(found.packet.payload)
    isEnded = found.packet.kind === 'flush'
    rest = rest.subarray(found.length)
  }
  return { payloads, isEnded }
}
