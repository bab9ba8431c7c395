import { PassThrough, type Readable } from 'node:stream'
import { watchDrain } from '#base/chunks.ts'
import { watchStall } from '#base/timeouts.ts'
import type { GitTasks, Requester, Task } from '../git-tasks.ts'

type Streamed = Pick<Task<unknown>, 'command' | 'memoryMaxBytes'> & {
  /** How long a client may read nothing. */
  stallMs: number
}

/**
 * Streams the output of a git process, with memory that does not depend on its size. Git ends when the stream is destroyed.
 */
export function streamOutput(
  tasks: GitTasks,
  { signal, ...requester }: Requester,
  { stallMs, ...task }: Streamed,
): Promise<StartedStream> {
  return streamChunks({ stallMs, signal }, (ending, read) =>
    tasks.run({ ...requester, signal: ending }, { ...task, isStream: true, read }),
  )
}

/** A stream with its first bytes, so that a failure before them has a response of its own. */
type StartedStream = { start: Buffer; stream: Readable }

type Read = (output: AsyncIterable<Buffer>) => Promise<void>

/** Streams what `produce` reads. Its signal is aborted when the stream is destroyed, and when the client stalls. */
export async function streamChunks(
  { stallMs, signal }: { stallMs: number; signal: AbortSignal },
  produce: (signal: AbortSignal, read: Read) => Promise<void>,
): Promise<StartedStream> {
  const stream = new PassThrough()
  const isUnread = () => stream.readableLength > 0 || stream.writableNeedDrain
  const stall = watchStall(stallMs, isUnread, signal)
  const closed = new AbortController()
  const ending = AbortSignal.any([stall.signal, closed.signal])
  const started = Promise.withResolvers<Buffer>()

  async function read(output: AsyncIterable<Buffer>): Promise<void> {
    using draining = watchDrain(stream, ending)
    for await (const chunk of output) {
      started.resolve(chunk)
      stall.progress()
      if (!stream.write(chunk)) await draining.wait()
    }
    started.resolve(Buffer.alloc(0))
  }

  // When the client has read all, or is gone.
  stream.once('close', () => {
    stall[Symbol.dispose]()
    closed.abort()
  })
  // An error before the stream is read has no other listener.
  stream.on('error', () => {})
  produce(ending, read).then(
    () => void stream.end(),
    (error) => {
      started.reject(error)
      stream.destroy(error)
    },
  )
  return { start: await started.promise, stream }
}
