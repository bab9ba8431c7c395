import { setTimeout as sleep } from 'node:timers/promises'
import type { MemoryGroup } from './memory-group.ts'
import { openOutput } from './output.ts'
import type { StepPipe } from './pipes.ts'
import { signal as send } from './processes.ts'
import { diskMet, watch, watchMemory } from './resource-limits.ts'
import { folderFault, type RunningProcess } from './running-process.ts'
import type { CommandEnd, SandboxLimits, WorkspaceCommand } from './sandbox.ts'

type Reason = CommandEnd['reason']

/** How long a step has to end by itself when it is asked to: the longest wait of the two. */
const graceMs = { 'timed-out': 2000, cancelled: 5000 }
// More than a path has, so that the one in a complaint is whole and a secret in it is masked.
const complaintMaxLength = 16_384

type Options = {
  /** Where the command writes. */
  pipe: StepPipe
  limits: SandboxLimits
  memoryGroup: MemoryGroup | undefined
  /** A folder on the disk of the rooms. */
  disk: string
  start: (writer: number) => RunningProcess
  /** Called when a command has filled the disk and none of its processes runs any more, to make space. */
  onDiskFull: () => Promise<void>
  /** Aborted when the room is being removed: nobody waits any longer for a step to end by itself. */
  hurry: AbortSignal
}

/** Runs a command from its start until the last of its processes has ended and all that it wrote was taken. */
export async function runProcess(
  { pipe, limits, memoryGroup, disk, start, onDiskFull, hurry }: Options,
  { timeoutMs, signal, onOutput }: WorkspaceCommand,
): Promise<CommandEnd> {
  if (signal.aborted) return { exitCode: null, reason: 'cancelled', detail: '' }
  const full = await diskMet(disk, limits)
  if (full) return { exitCode: null, ...full }
  const memory = watchMemory(limits, memoryGroup)
  const output = openOutput(pipe)
  let head = ''
  const started = start(output.writer)
  output.closeWriter()
  using stopping = stopper(started)
  const timer = setTimeout(() => stopping.stop('timed-out', graceMs['timed-out']), timeoutMs)
  const onAbort = () => stopping.stop('cancelled', hurry.aborted ? 0 : graceMs.cancelled)
  signal.addEventListener('abort', onAbort)
  // It may have been cancelled before, and still have time to end.
  hurry.addEventListener('abort', onAbort)
  const over = new AbortController()
  const watching = watch(started, { limits, memory, disk, signal: over.signal }).then(
    (met) => met && stopping.stop(met.reason, 0, met.detail),
  )
  const reading = output.read((bytes) => {
    if (head.length < complaintMaxLength) head += bytes.toString('utf8')
    return onOutput(bytes)
  })
  try {
    // Whoever takes the output can fail, and the step must not go on for nobody.
    const failed = Promise.withResolvers<never>()
    reading.catch(failed.reject)
    watching.catch(failed.reject)
    const exit = await Promise.race([started.exited, failed.promise])
    // What comes now comes too late to be the reason.
    stopping[Symbol.dispose]()
    await stopping.endAll()
    output.finish()
    // However it ended; whoever takes the output may be waiting for space on this very disk.
    const full = await diskMet(disk, limits)
    if (full || stopping.reason === 'out-of-disk') await onDiskFull()
    await reading
    if (full && !stopping.reason) return { exitCode: null, ...full }
    // The kernel may have ended it since the last check.
    const met = stopping.reason ? undefined : memory.limitMet()
    if (met) return { exitCode: null, ...met }
    if (stopping.reason) return { exitCode: null, reason: stopping.reason, detail: stopping.detail }
    if (exit.exitCode !== null) return { exitCode: exit.exitCode, reason: 'exited', detail: '' }
    const detail = exit.fault || toDetail(head.slice(0, complaintMaxLength).trim())
    return { exitCode: null, reason: 'not-started', detail }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
    hurry.removeEventListener('abort', onAbort)
    over.abort()
    await stopping.endAll()
    output.finish()
    await Promise.allSettled([reading, watching])
  }
}

// What bubblewrap says is of itself, but for the folder that the step asked for.
function toDetail(complaint: string): string {
  const [, folder, why = ''] = /^bwrap: Can't chdir to (.*): ([^:]*)$/s.exec(complaint) ?? []
  if (folder === undefined) return `The sandbox could not be made: ${complaint}`
  return folderFault(folder, why)
}

/** Asks a command to end, and ends it; the first reason is the one that counts. */
function stopper(started: RunningProcess) {
  const gone = new AbortController()
  let killing: Promise<void> | undefined
  const stopping = {
    reason: undefined as Reason | undefined,
    detail: '',
    stop(reason: Reason, graceMs: number, detail = ''): void {
      if (gone.signal.aborted) return
      if (stopping.reason === undefined) Object.assign(stopping, { reason, detail })
      const isAsked = graceMs > 0 && askToEnd(started)
      // A failure to end it is told by the end that the command's life waits for.
      void sleep(isAsked ? graceMs : 0, undefined, { signal: gone.signal }).then(
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
      gone.abort()
    },
  }
  return stopping
}

/** Whether there was anybody to ask. */
function askToEnd(started: RunningProcess): boolean {
  const processes = started.processes()
  for (const { pid } of processes) {
    send(pid, 'SIGTERM')
    // One that has been stopped hears it only when it goes on.
    send(pid, 'SIGCONT')
  }
  return processes.length > 0
}
