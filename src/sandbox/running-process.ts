import { closeSync } from 'node:fs'
import { constants } from 'node:os'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Launched } from './launch.ts'
import type { StepPipes } from './pipes.ts'
import type { Process } from './processes.ts'
import type { WorkspaceCommand } from './sandbox.ts'

/** A command that has been started, in whatever kind of room. */
export type RunningProcess = {
  /** The end of its first process. Never rejects. */
  exited: Promise<Exit>
  /** All of its processes that can be found, for signals. */
  processes: () => Process[]
  /** Their bytes of memory; exact only beyond `limit`. */
  memory: (limit: number) => Promise<number>
  /** Ends all of its processes, and waits until none is left. */
  endAll: () => Promise<void>
}

/** `fault` tells why there is no exit code: the command did not start. An empty one is told by its output. */
export type Exit = { exitCode: number; fault: undefined } | { exitCode: null; fault: string }

/** The end of a process that was started; its code as shells count, 128 and the number of a signal. */
export function exitOf(child: Launched): Promise<Exit> {
  return new Promise((resolve) => {
    child.on('error', (error) => {
      resolve({ exitCode: null, fault: `The step could not be started: ${error.message}.` })
    })
    child.on('exit', (code, name) => {
      child.stdin?.destroy()
      resolve({ exitCode: code ?? 128 + (name ? constants.signals[name] : 0), fault: undefined })
    })
  })
}

/** A command that cannot be started, and why. */
export function notStarted(fault: string): RunningProcess {
  return {
    exited: Promise.resolve({ exitCode: null, fault }),
    processes: () => [],
    memory: async () => 0,
    endAll: async () => {},
  }
}

/** Why a command cannot be started in its folder; `why` in the words of the system. */
export function folderFault(folder: string, why: string): string {
  return why === 'No such file or directory'
    ? `The working directory ${folder} is not there; make it in a step before this one.`
    : `The working directory ${folder} cannot be entered: ${why}.`
}

/** What a command reads, as Node's spawn takes it: by default the job's own pipe, which is at its end. */
export function openInput(
  { stdin }: WorkspaceCommand,
  { input }: StepPipes,
): Disposable & { stdio: number | 'pipe' } {
  if (stdin) return { stdio: 'pipe', [Symbol.dispose]() {} }
  input.drain()
  const descriptor = input.openInput()
  return { stdio: descriptor, [Symbol.dispose]: () => closeSync(descriptor) }
}

/** Hands on what a command is to read, for as long as it reads. */
export function feed(child: Launched, { stdin }: WorkspaceCommand): void {
  if (!stdin || !child.stdin) return
  // Who ends before it has read all breaks the pipe; its exit code tells how it went.
  pipeline(stdin, child.stdin).catch(() => {})
}

const pauseMs = 2
const patienceMs = 30_000

/** Waits until `isOver` says so. Throws when that takes too long: only the kernel can be to blame. */
export async function untilOver(isOver: () => boolean | Promise<boolean>): Promise<void> {
  for (let waitedMs = 0; !(await isOver()); waitedMs += pauseMs) {
    if (waitedMs > patienceMs) throw new Error('Processes of a step do not end, though killed.')
    await sleep(pauseMs)
  }
}
