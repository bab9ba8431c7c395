import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StepPipe } from './pipes.ts'

/** One pipe for standard output and standard error, so that both stay in order. */
export type Output = {
  /** What a process is given as descriptors 1 and 2. */
  writer: number
  /** To be called when the process has it. */
  closeWriter: () => void
  /** Resolves when all has been taken that was written until every writer had closed. */
  read: (take: (bytes: Buffer) => void | Promise<void>) => Promise<void>
  /** When the processes are gone: what is in the pipe is read, and no more. */
  finish: () => void
}

// As much as an unprivileged process may have in a pipe: pipe(7), pipe-max-size.
const leftMaxBytes = 1_048_576
const quietMs = 250

/** Opens the pipe of a job for one command. */
export function openOutput(ofJob: StepPipe): Output {
  ofJob.drain()
  const reader = ofJob.openReader()
  const writer = ofJob.openOutput()
  const pipe = new Socket({ fd: reader, readable: true, writable: false })
  // It is read by the loop below, which sees the error.
  pipe.on('error', () => {})
  let writerIsOpen = true
  let isTaking = false
  let left = Number.POSITIVE_INFINITY

  // Who had sent the pipe to somebody outside could keep it open for ever.
  async function closeWhenQuiet(): Promise<void> {
    for (let before = -1; !pipe.destroyed && before !== pipe.bytesRead; ) {
      before = pipe.bytesRead
      await sleep(quietMs, undefined, { ref: false })
      // A busy program may have had no time to look: by then it has looked into the pipe.
      for (let turn = 0; turn < 2; turn++) await new Promise(setImmediate)
      // Whoever takes it can take his time.
      if (isTaking || pipe.readableLength > 0) before = -1
    }
    pipe.destroy()
  }

  return {
    writer,
    closeWriter() {
      if (writerIsOpen) closeSync(writer)
      writerIsOpen = false
    },
    async read(take) {
      try {
        for await (const chunk of pipe) {
          isTaking = true
          await take(chunk)
          isTaking = false
          left -= chunk.length
          if (left < 0) break
        }
      } catch (error) {
        const wasClosed = pipe.destroyed && !isTaking && left < Number.POSITIVE_INFINITY
        if (!wasClosed) throw error
      } finally {
        pipe.destroy()
      }
    },
    finish() {
      left = leftMaxBytes
      void closeWhenQuiet()
    },
  }
}
