import { closeSync } from 'node:fs'
import { constants } from 'node:os'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { NetworkNamespace } from './job-network.ts'
import type { LaunchedProcess } from './launch.ts'
import type { StepPipes } from './pipes.ts'
import type { Process } from './processes.ts'
import type { WorkspaceCommand } from './sandbox.ts'

/** A command that has been started, in bubblewrap or without. */
export type RunningProcess = {
  /** The exit of its first process. Never rejects. */
  exited: Promise<Exit>
  /** All its processes that can be found, for signals. */
  processes: () => Process[]
  /** Bytes of memory of its processes; exact only above `limit`. */
  memory: (limit: number) => Promise<number>
  /** Kills all its processes, and waits until none is left. */
  endAll: () => Promise<void>
}

/** The descriptors that a command gets when it starts. */
export type StartOptions = {
  /** For its output. */
  writer: number
  /** Descriptors of the namespaces to join, if any. */
  namespaces: NetworkNamespace['descriptors'] | undefined
}

/** `fault` says why the command did not start; when it is empty, the output does. */
export type Exit = { exitCode: number; fault: undefined } | { exitCode: null; fault: string }

/** The exit of a process; as in shells, a signal counts as 128 plus its number. */
export function exitOf(child: LaunchedProcess): Promise<Exit> {
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

/** A command that could not be started. */
export function notStarted(fault: string): RunningProcess {
  return {
    exited: Promise.resolve({ exitCode: null, fault }),
    processes: () => [],
    memory: async () => 0,
    endAll: async () => {},
  }
}

/** Why a working directory cannot be used; `why` is the system's error message. */
export function folderFault(folder: string, why: string): string {
  return why === 'No such file or directory'
    ? `The working directory ${folder} does not exist; create it in an earlier step.`
    : `The working directory ${folder} cannot be entered: ${why}.`
}

/** Standard input for Node's `spawn`: by default the job's own pipe, which is empty. */
export function openInput(
  { stdin }: WorkspaceCommand,
  { input }: StepPipes,
): Disposable & { stdio: number | 'pipe' } {
  if (stdin) return { stdio: 'pipe', [Symbol.dispose]() {} }
  input.drain()
  const descriptor = input.openInput()
  return { stdio: descriptor, [Symbol.dispose]: () => closeSync(descriptor) }
}

/** Pipes standard input to a command for as long as it reads. */
export function feed(child: LaunchedProcess, { stdin, onInputWritten }: WorkspaceCommand): void {
  const input = child.stdin
  if (!stdin || !input) return
  const target = new Writable({
    write(chunk: Buffer, _encoding, done) {
      input.write(chunk, (error) => {
        if (!error) onInputWritten?.(chunk)
        done(error)
      })
    },
    final: (done) => void input.end(done),
    destroy(error, done) {
      input.destroy()
      done(error)
    },
  })
  // A command that exits early breaks the pipe; its exit code says whether it failed.
  input.on('error', () => {})
  input.once('close', () => target.destroy())
  pipeline(stdin, target).catch(() => {})
}
