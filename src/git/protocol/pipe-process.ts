import type { Writable } from 'node:stream'
import type { Problem } from '../../base/problem.ts'
import { chunksOf, watchDrain } from '../process/chunks.ts'
import type { Ended, GitProcess } from '../process/git-process.ts'
import type { ReportSplitter } from './push-report.ts'
import type { Body } from './request-body.ts'
import { createResponsePackets } from './response-packets.ts'

type Streams = {
  input: Body
  output: Writable
  /** Whether what the client still sends after git has ended is read and dropped, so that it gets to read what git said. */
  sendsAllFirst: boolean
  signal: AbortSignal
  /** Called once, before the first byte of output. */
  onBegin: () => void
  /** Called for every piece of output. */
  onProgress: () => void
  /** Called when all input is given and all output taken; git may take a moment more to end. */
  onSaid?: (() => void) | undefined
  /** Holds the end of the output back. */
  hold?: ReportHold | undefined
  /** Whether the reason why a limit ended git is given even when nothing else was said; never in a report. */
  explains?: 'always' | 'once begun' | undefined
}

/** How a git process ended, and whether the output ends with the reason why that was so early. */
export type PipeEnd = Ended & { isExplained: boolean }

/** A report that the client gets only when what it reports has taken effect. */
export type ReportHold = {
  splitter: ReportSplitter
  /** Called when the report begins, or at the end of the output; resolves with what precedes it once it may go. */
  release: () => Promise<Buffer>
}

/**
 * Connects a git process to a client until both are done, and leaves the output open.
 */
export async function pipeProcess(child: GitProcess, streams: Streams): Promise<PipeEnd> {
  const given = give(streams.input, child.stdin, streams.signal)
  // One that goes on sending to a git that has ended will learn of it in another way.
  given.catch(() => {})
  const taken = take(child, streams)
  const said = Promise.all([
    streams.sendsAllFirst ? given : Promise.race([given, child.ended]),
    taken,
  ]).then(streams.onSaid)
  const [ended, explained] = await Promise.all([child.ended, taken, said])
  return { ...ended, ...explained }
}

async function give(input: Body, stdin: Writable, signal: AbortSignal): Promise<void> {
  using draining = watchDrain(stdin, signal)
  for await (const chunk of input) {
    if (stdin.writable && !stdin.write(chunk)) await draining.wait()
  }
  stdin.end()
}

/** Whether the output ends with a reason, and which. */
async function take(
  child: GitProcess,
  streams: Streams,
): Promise<{ isExplained: boolean; exceeded?: Problem }> {
  const { output, signal, onBegin, onProgress, hold, explains = 'always' } = streams
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
      if (!hold) await write(packets.pass(chunk))
      else {
        await write(hold.splitter.pass(chunk))
        // Awaited below: git ends meanwhile.
        if (hold.splitter.hasBegun()) released ??= hold.release()
      }
    }
    if (hold) {
      released ??= hold.release()
      await write(Buffer.concat([await released, hold.splitter.rest()]))
      return { isExplained: false }
    }
    const ended = await child.ended
    const exceeded =
      ended.exceeded ??
      (ended.exitCode === 0 ? undefined : child.limitExceeded(packets.lastProgress()))
    const mayExplain = exceeded && (begun || explains === 'always')
    const reason = mayExplain ? packets.explain(exceeded.message) : undefined
    await write(reason ?? packets.rest())
    return { isExplained: reason !== undefined, ...(exceeded && { exceeded }) }
  } finally {
    // A push that was allowed goes on without its client; it must not fail on a full pipe.
    child.stdout.resume()
  }
}
