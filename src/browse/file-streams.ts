import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import { watchStall } from '#base/timeouts.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { GitTasks, Requester } from './git-tasks.ts'

/** The content of a blob, with its first bytes, which the stream has, too. */
export type BlobStream = { start: Buffer; stream: Readable }

type Options = {
  tasks: GitTasks
  /** How long a client may read nothing. */
  stallMs: number
}

/** Streams blobs from git processes. Memory does not depend on their size. */
export function createBlobStreams({ tasks, stallMs }: Options) {
  return async ({ signal, ...requester }: Requester, id: string): Promise<BlobStream> => {
    const stream = new PassThrough()
    const isUnread = () => stream.readableLength > 0 || stream.writableNeedDrain
    const stall = watchStall(stallMs, isUnread, signal)
    const closed = new AbortController()
    const ending = AbortSignal.any([stall.signal, closed.signal])
    const started = Promise.withResolvers<Buffer>()
    const command = gitCommands.printBlob(requester.repository.path, id)

    async function copy(output: AsyncIterable<Buffer>): Promise<void> {
      for await (const chunk of output) {
        started.resolve(chunk)
        stall.progress()
        if (!stream.write(chunk)) await once(stream, 'drain', { signal: ending })
      }
      started.resolve(Buffer.alloc(0))
    }

    // When the client has read all, or is gone.
    stream.once('close', () => {
      stall[Symbol.dispose]()
      closed.abort()
    })
    stream.on('error', () => {})
    tasks.run({ ...requester, signal: ending }, { command, isStream: true, read: copy }).then(
      () => void stream.end(),
      (error) => {
        started.reject(error)
        stream.destroy(error)
      },
    )
    return { start: await started.promise, stream }
  }
}
