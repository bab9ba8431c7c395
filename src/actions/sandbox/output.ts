import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StepPipe } from './pipes.ts'

/** One pipe for standard output and standard error, so that their order is kept. */
export type Output = {
  /** For descriptors 1 and 2 of a process. */
  writer: number
  /** To be called once the process has been started. */
  closeWriter: () => void
  /** Resolves at the end of the pipe, when all writers have closed it and `onBytes` has had everything. */
  read: (onBytes: (bytes: Buffer) => void | Promise<void>) => Promise<void>
  /** Called when the processes have ended: what is in the pipe is still read, and no more. */
  finish: () => void
}

// The maximum capacity of a pipe for an unprivileged process: pipe(7), pipe-max-size.
const maxRemainingBytes = 1_048_576
const quietPeriodMs = 250

/** Opens the pipe of a job for one command. */
export function openOutput(jobPipe: StepPipe): Output {
  jobPipe.drain()
  const reader = jobPipe.openReader()
  const writer = jobPipe.openOutput()
  const pipe = new Socket({ fd: reader, readable: true, writable: false })
  // The loop below gets the error, too.
  pipe.on('error', () => {})
  let writerIsOpen = true
  let isConsuming = false
  let remainingBytes = Number.POSITIVE_INFINITY

  // A process outside that was sent the descriptor could keep the pipe open for ever.
  async function closeWhenQuiet(): Promise<void> {
    for (let before = -1; !pipe.destroyed && before !== pipe.bytesRead; ) {
      before = pipe.bytesRead
      await sleep(quietPeriodMs, undefined, { ref: false })
      // Even a busy event loop has polled the pipe after two turns.
      for (let turn = 0; turn < 2; turn++) await new Promise(setImmediate)
      // The consumer may be slow.
      if (isConsuming || pipe.readableLength > 0) before = -1
    }
    pipe.destroy()
  }

  return {
    writer,
    closeWriter() {
      if (writerIsOpen) closeSync(writer)
      writerIsOpen = false
    },
    async read(onBytes) {
      try {
        for await (const chunk of pipe) {
          isConsuming = true
          await onBytes(chunk)
          isConsuming = false
          remainingBytes -= chunk.length
          if (remainingBytes < 0) break
        }
      } catch (error) {
        const wasClosed =
          pipe.destroyed && !isConsuming && remainingBytes < Number.POSITIVE_INFINITY
        if (!wasClosed) throw error
      } finally {
        pipe.destroy()
      }
    },
    finish() {
      remainingBytes = maxRemainingBytes
      void closeWhenQuiet()
    },
  }
}
