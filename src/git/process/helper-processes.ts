import type { Socket } from 'node:net'
import { killGroup } from '#base/kill-group.ts'
import type { ExitStatus, PreforkedProcess } from './preforked-process.ts'

/** The processes of one spawn helper, as its messages report them. */
export type HelperProcesses = {
  /** Asks the helper for one more process. */
  start: () => void
  receive: (message: SpawnReport, handle?: Socket) => void
  /** The number of processes that are not ready yet. */
  countPending: () => number
  /** Kills and forgets all, when the helper has ended. */
  abandonAll: (reason: string) => void
}

type Options = {
  request: (id: number) => void
  /** Called with a process that has all its pipes. */
  onReady: (id: number, preforked: PreforkedProcess) => void
  /** Called when a process that was ready has ended. */
  onEnded: (id: number) => void
  /** Called for a process that cannot be started. */
  onFailed: (reason: string) => void
}

/** A preforked process that has not ended, or whose pipes have not all arrived. */
type Known = {
  pid: number | undefined
  pipes: Partial<Record<PipeName, Socket>>
  listen: (text: string) => void
  end: PromiseWithResolvers<ExitStatus>
  isComplete: boolean
}

export function createHelperProcesses(options: Options): HelperProcesses {
  const { request, onReady, onEnded, onFailed } = options
  const known = new Map<number, Known>()
  let lastId = 0

  function receivePipe(
    preforked: Known,
    message: Extract<SpawnReport, { pipe: PipeName }>,
    handle?: Socket,
  ): void {
    preforked.pid = message.pid
    // There is no handle when the process has ended meanwhile, as the next message says.
    if (!handle) return
    handle.on('error', () => {})
    preforked.pipes[message.pipe] = handle
    const { stdin, stdout, channel } = preforked.pipes
    if (!stdin || !stdout || !channel) return
    preforked.isComplete = true
    onReady(message.id, {
      pid: preforked.pid,
      stdin,
      stdout,
      channel,
      listen: (listener) => {
        preforked.listen = listener
      },
      ended: preforked.end.promise,
    })
  }

  /** Forgets a process that will not report its end. */
  function abandon(id: number, reason: string): void {
    const preforked = known.get(id)
    known.delete(id)
    preforked?.end.resolve({ exitCode: null, signal: null })
    if (preforked?.isComplete) return
    for (const pipe of Object.values(preforked?.pipes ?? {})) pipe.destroy()
    onFailed(reason)
  }

  return {
    start() {
      const id = ++lastId
      known.set(id, {
        pid: undefined,
        pipes: {},
        listen: () => {},
        end: Promise.withResolvers(),
        isComplete: false,
      })
      request(id)
    },

    receive(message, handle) {
      const preforked = known.get(message.id)
      if (!preforked) handle?.destroy()
      else if ('stderr' in message) preforked.listen(message.stderr)
      else if ('pipe' in message) receivePipe(preforked, message, handle)
      else if (!preforked.isComplete) abandon(message.id, message.error ?? 'A process was killed.')
      else {
        known.delete(message.id)
        onEnded(message.id)
        preforked.end.resolve({ exitCode: message.exitCode, signal: message.signal })
      }
    },

    countPending: () => [...known.values()].filter(({ isComplete }) => !isComplete).length,

    abandonAll(reason) {
      for (const [id, { pid }] of known) {
        killGroup(pid, 'SIGKILL')
        abandon(id, reason)
      }
    },
  }
}

/** A message to the helper: first the variables of all processes, then the id of each process to start. */
export type SpawnRequest = { variables: Record<string, string> } | { id: number }

/** A message about a process: its pipes one by one, each with a handle, its standard error, and its end. */
export type SpawnReport =
  | { id: number; pid: number | undefined; pipe: PipeName }
  | { id: number; stderr: string }
  | ({ id: number; error?: string } & ExitStatus)

export type PipeName = 'stdin' | 'stdout' | 'channel'
