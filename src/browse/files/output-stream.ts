import { PassThrough, type Readable } from 'node:stream'
import { watchDrain } from '#base/chunks.ts'
import { watchStall } from '#base/timeouts.ts'
import type { GitTasks, Requester, Task } from '../git-tasks.ts'

type Streamed = Pick<Task<unknown>, 'command' | 'memoryMaxBytes'> & {
  /** How long a client may read nothing. */
  stallMs: number
}

/**
 * Streams the output of a git process, with memory that does not depend on its size. Resolves with its first bytes, which
 * the stream has, too, so that a failure before that has a response of its own. Git ends when the stream is destroyed.
 */
export async function streamOutput(
  tasks: GitTasks,
  { signal, ...requester }: Requester,
  { stallMs, ...task }: Streamed,
): Promise<{ start: Buffer; stream: Readable }> {
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
  tasks.run({ ...requester, signal: ending }, { ...task, isStream: true, read }).then(
    () => void stream.end(),
    (error) => {
      started.reject(error)
      stream.destroy(error)
    },
  )
  return { start: await started.promise, stream }
}
