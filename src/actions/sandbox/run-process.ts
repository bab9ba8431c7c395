import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { MemoryGroup } from './memory/memory-group.ts'
import type { StepPipe } from './pipes.ts'
import { signal as sendSignal } from './processes.ts'
import { checkDisk, watchLimits, watchMemory } from './resource-limits.ts'
import { folderFault, type RunningProcess } from './running-process.ts'
import type { CommandEnd, SandboxLimits, WorkspaceCommand } from './sandbox.ts'

type Reason = CommandEnd['reason']

/** How long a step has to end after SIGTERM. */
const graceMs = { 'timed-out': 2000, cancelled: 5000 }
// More than the longest path, so that a path in an error message stays whole and secrets in it are masked.
const maxHeadLength = 16_384

type Options = {
  /** The output pipe of the job. */
  pipe: StepPipe
  limits: SandboxLimits
  memoryGroup: MemoryGroup | undefined
  /** A directory on the workspaces' disk. */
  disk: string
  start: (writer: number) => RunningProcess
  /** Frees disk space. Called when a command has filled the disk and all its processes have ended. */
  onDiskFull: () => Promise<void>
  /** Aborted when the workspace is being removed: from then on, no grace period is given. */
  disposing: AbortSignal
}

/** Runs a command until all its processes have ended and all its output has been consumed. */
export async function runProcess(
  { pipe, limits, memoryGroup, disk, start, onDiskFull, disposing }: Options,
  { timeoutMs, signal, onOutput }: WorkspaceCommand,
): Promise<CommandEnd> {
  if (signal.aborted) return { exitCode: null, reason: 'cancelled', detail: '' }
  const full = await checkDisk(disk, limits)
  if (full) return { exitCode: null, ...full }
  const memory = watchMemory(limits, memoryGroup)
  const output = openOutput(pipe)
  let head = ''
  const started = start(output.writer)
  output.closeWriter()
  using stopping = createStopper(started)
  const timer = setTimeout(() => stopping.stop('timed-out', graceMs['timed-out']), timeoutMs)
  const onAbort = () => stopping.stop('cancelled', disposing.aborted ? 0 : graceMs.cancelled)
  signal.addEventListener('abort', onAbort)
  // Ends the grace period of an earlier cancellation.
  disposing.addEventListener('abort', onAbort)
  const end = new AbortController()
  const watching = watchLimits(started, { limits, memory, disk, signal: end.signal }).then(
    (reached) => reached && stopping.stop(reached.reason, 0, reached.detail),
  )
  const reading = output.read((bytes) => {
    if (head.length < maxHeadLength) head += bytes.toString('utf8')
    return onOutput(bytes)
  })
  try {
    // When the consumer of the output fails, the step must not continue.
    const failed = Promise.withResolvers<never>()
    reading.catch(failed.reject)
    watching.catch(failed.reject)
    const exit = await Promise.race([started.exited, failed.promise])
    // A stop from now on is not the reason for the end.
    stopping[Symbol.dispose]()
    await stopping.endAll()
    output.finish()
    // Before the output is consumed, which may itself wait for space on this disk.
    const full = await checkDisk(disk, limits)
    if (full || stopping.reason === 'out-of-disk') await onDiskFull()
    await reading
    if (full && !stopping.reason) return { exitCode: null, ...full }
    // The kernel may have killed it since the last check.
    const reached = stopping.reason ? undefined : memory.limitReached()
    if (reached) return { exitCode: null, ...reached }
    if (stopping.reason) return { exitCode: null, reason: stopping.reason, detail: stopping.detail }
    if (exit.exitCode !== null) return { exitCode: exit.exitCode, reason: 'exited', detail: '' }
    const detail = exit.fault || toDetail(head.slice(0, maxHeadLength).trim())
    return { exitCode: null, reason: 'not-started', detail }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
    disposing.removeEventListener('abort', onAbort)
    end.abort()
    await stopping.endAll()
    output.finish()
    await Promise.allSettled([reading, watching])
  }
}

// Errors of bubblewrap are about the sandbox, except for the working directory, which the step chooses.
function toDetail(errorOutput: string): string {
  const [, folder, why = ''] = /^bwrap: Can't chdir to (.*): ([^:]*)$/s.exec(errorOutput) ?? []
  if (folder === undefined) return `The sandbox could not be created: ${errorOutput}`
  return folderFault(folder, why)
}

/** Stops a command, after a grace period if there is one. The first reason counts. */
function createStopper(started: RunningProcess) {
  const ended = new AbortController()
  let killing: Promise<void> | undefined
  const stopping = {
    reason: undefined as Reason | undefined,
    detail: '',
    stop(reason: Reason, graceMs: number, detail = ''): void {
      if (ended.signal.aborted) return
      if (stopping.reason === undefined) Object.assign(stopping, { reason, detail })
      const isRequested = graceMs > 0 && requestEnd(started)
      // `runProcess` calls `endAll` as well and reports its failure.
      void sleep(isRequested ? graceMs : 0, undefined, { signal: ended.signal }).then(
        () => stopping.endAll().catch(() => {}),
        () => {},
      )
    },
    /** Concurrent calls share one kill, because a second one could still hit the processes of the next step. */
    endAll(): Promise<void> {
      killing ??= started.endAll().finally(() => {
        killing = undefined
      })
      return killing
    },
    [Symbol.dispose]() {
      ended.abort()
    },
  }
  return stopping
}

/** Sends SIGTERM to all processes; false when there are none. */
function requestEnd(started: RunningProcess): boolean {
  const processes = started.processes()
  for (const { pid } of processes) {
    sendSignal(pid, 'SIGTERM')
    // A stopped process handles SIGTERM only once it continues.
    sendSignal(pid, 'SIGCONT')
  }
  return processes.length > 0
}

/** One pipe for standard output and standard error, so that their order is kept. */
type Output = {
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
function openOutput(jobPipe: StepPipe): Output {
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
