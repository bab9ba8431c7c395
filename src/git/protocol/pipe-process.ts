import type { Writable } from 'node:stream'
import { chunksOf, watchDrain } from '#base/chunks.ts'
import type { Ended, GitProcess } from '../process/git-process.ts'
import type { ReportSplitter } from './push-report.ts'
import type { Body } from './request-body.ts'
import { createResponsePackets } from './response-packets.ts'

/** Where a response is written. */
export type ResponseSink = {
  output: Writable
  signal: AbortSignal
  /** Called once, before the first byte of output, with the size in bytes if it is known. */
  onBegin: (size?: number) => void
  /** Called for every chunk of output. */
  onProgress: () => void
}

type Streams = ResponseSink & {
  input: Body
  /** Whether to drain the input after git has ended: some clients read the response only after sending everything. */
  sendsAllFirst: boolean
  /** Called when all input and output is transferred; git may end slightly later. */
  onTransferred?: (() => void) | undefined
  /** Delays the report at the end of the output. */
  reportHold?: ReportHold | undefined
  /** Whether to report an exceeded limit to the client always, or only after other output; never within a report. */
  explains?: 'always' | 'once begun' | undefined
}

/**
 * How a git process ended, and whether the output ends with an explanation of an early end, or within a packet, so that the
 * client must not take it for a whole response.
 */
export type PipeEnd = Ended & { isExplained: boolean; isIncomplete?: boolean }

/** Delays the report of a push until its effects are complete. */
export type ReportHold = {
  splitter: ReportSplitter
  /** Called when the report is there, or at the end of the output; resolves with the bytes to send before the report. */
  release: () => Promise<Buffer>
}

/** Pipes between a git process and a client until both are done, and leaves the output open. */
export async function pipeProcess(child: GitProcess, streams: Streams): Promise<PipeEnd> {
  const sent = send(streams.input, child.stdin, streams.signal)
  // Input errors after git has ended are reported elsewhere.
  sent.catch(() => {})
  const received = receive(child, streams)
  const transferred = Promise.all([
    streams.sendsAllFirst ? sent : Promise.race([sent, child.ended]),
    received,
  ]).then(streams.onTransferred)
  const [ended, explained] = await Promise.all([child.ended, received, transferred])
  return { ...ended, ...explained }
}

async function send(input: Body, stdin: Writable, signal: AbortSignal): Promise<void> {
  using draining = watchDrain(stdin, signal)
  for await (const chunk of input) {
    if (stdin.writable && !stdin.write(chunk)) await draining.wait()
  }
  stdin.end()
}

/** Copies git's output to the client. Returns whether it ends with an explanation, and the limit that ended git. */
async function receive(
  child: GitProcess,
  streams: Streams,
): Promise<Pick<PipeEnd, 'isExplained' | 'isIncomplete' | 'exceeded'>> {
  const { output, signal, onBegin, onProgress, reportHold, explains = 'always' } = streams
  const packets = createResponsePackets()
  let begun = false
  let released: Promise<Buffer> | undefined
  using draining = watchDrain(output, signal)

  async function write(bytes: Buffer): Promise<void> {
    if (bytes.length === 0) return
    if (!begun) onBegin()
    begun = true
    onProgress()
    if (!output.write(bytes)) await draining.wait()
    onProgress()
    signal.throwIfAborted()
  }

  try {
    for await (const chunk of chunksOf(child.stdout, signal)) {
      if (!reportHold) await write(packets.pass(chunk))
      else {
        await write(reportHold.splitter.pass(chunk))
        // Awaited below: git ends meanwhile.
        if (!released && reportHold.splitter.whole()) released = reportHold.release()
      }
    }
    if (reportHold) {
      released ??= reportHold.release()
      await write(Buffer.concat([await released, reportHold.splitter.rest()]))
      return { isExplained: false }
    }
    const ended = await child.ended
    const exceeded =
      ended.exceeded ??
      (ended.exitCode === 0 ? undefined : child.limitExceeded(packets.lastProgress()))
    const mayExplain = exceeded && (begun || explains === 'always')
    const reason = mayExplain ? packets.explain(exceeded.message) : undefined
    await write(reason ?? packets.rest())
    const isIncomplete = ended.exitCode !== 0 && packets.isIncomplete()
    return { isExplained: reason !== undefined, isIncomplete, ...(exceeded && { exceeded }) }
  } finally {
    // An authorized push continues without its client; it must not block on a full pipe.
    child.stdout.on('data', (chunk) => reportHold?.splitter.pass(chunk)).resume()
  }
}
