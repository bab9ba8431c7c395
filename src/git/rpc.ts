import type { Writable } from 'node:stream'
import type { Body } from './body.ts'
import { chunksOf, watchDrain } from './chunks.ts'
import type { Ended, GitProcess } from './git-process.ts'

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
}

/**
 * Connects a git process to a client until both are done, and leaves the output open.
 */
export async function converse(child: GitProcess, streams: Streams): Promise<Ended> {
  const given = give(streams.input, child.stdin, streams.signal)
  // One that goes on sending to a git that has ended will learn of it in another way.
  given.catch(() => {})
  const said = Promise.all([
    streams.sendsAllFirst ? given : Promise.race([given, child.ended]),
    take(child, streams),
  ]).then(streams.onSaid)
  const [ended] = await Promise.all([child.ended, said])
  return ended
}

async function give(input: Body, stdin: Writable, signal: AbortSignal): Promise<void> {
  using draining = watchDrain(stdin, signal)
  for await (const chunk of input) {
    if (stdin.writable && !stdin.write(chunk)) await draining.wait()
  }
  stdin.end()
}

async function take(child: GitProcess, streams: Streams): Promise<void> {
  const { output, signal, onBegin, onProgress } = streams
  let begun = false
  using draining = watchDrain(output, signal)
  try {
    for await (const chunk of chunksOf(child.stdout, signal)) {
      if (!begun) onBegin()
      begun = true
      onProgress()
      if (!output.write(chunk)) await draining.wait()
      onProgress()
      signal.throwIfAborted()
    }
  } finally {
    // A push that was allowed goes on without its client; it must not fail on a full pipe.
    child.stdout.resume()
  }
}
