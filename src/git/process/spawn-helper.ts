import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../base/log.ts'
import { endOrphans, ownerVariable } from './orphans.ts'
import {
  type ExitStatus,
  killGroup,
  type PreforkedProcess,
  type Preforker,
} from './preforked-process.ts'

/** A message to the helper: first the variables of all processes, then the id of each process to start. */
export type SpawnRequest = { variables: Record<string, string> } | { id: number }

/** A message about a process: its pipes one by one, each with a handle, its standard error, and its end. */
export type SpawnReport =
  | { id: number; pid: number | undefined; pipe: PipeName }
  | { id: number; stderr: string }
  | ({ id: number; error?: string } & ExitStatus)

export type PipeName = 'stdin' | 'stdout' | 'channel'

export type SpawnHelper = AsyncDisposable & {
  /** Returns preforked processes with these variables. For a single caller. */
  preforkerWith: (variables: Record<string, string>) => Preforker
}

type Options = {
  /** Marks the helper and its preforked processes, for endOrphans. */
  owner: string
  path: string
  /** The environment of the helper. */
  environment: Record<string, string | undefined>
  log: Log
}

/** A preforked process that has not ended, or whose pipes have not all arrived. */
type Known = {
  pid: number | undefined
  pipes: Partial<Record<PipeName, Socket>>
  listen: (text: string) => void
  end: PromiseWithResolvers<ExitStatus>
  isComplete: boolean
}

const program = fileURLToPath(
  new URL(`../../spawn-helper-main${extname(import.meta.url)}`, import.meta.url),
)
// As many as one request uses at once.
const spareProcesses = 3
const preforkTimeoutMs = 15_000
const exitWithinMs = 2000
const hasEnded = 'The git spawn helper has ended.'

/**
 * Starts processes from a small helper process. fork(2) copies the page tables of its caller, so in a large server it
 * is slow and blocks the event loop. The ends of the pipes are passed to this process (unix(7), SCM_RIGHTS), so no data
 * goes through the helper. When the helper ends, so do all its processes; another one is started on demand.
 */
export function createSpawnHelper({ owner, path, environment, log }: Options): SpawnHelper {
  const mark = `starter:${owner}`
  const ready = new Map<number, PreforkedProcess>()
  const waiting: PromiseWithResolvers<PreforkedProcess>[] = []
  let variables: Record<string, string> = {}
  let known = new Map<number, Known>()
  let current: ChildProcess | undefined
  let starting: Promise<void> | undefined
  let lastId = 0
  let isDisposed = false

  async function startHelper(): Promise<void> {
    // Processes of a server that was killed.
    await endOrphans(mark)
    if (isDisposed) throw new Error('The service is stopping.')
    // Detached into its own session: Ctrl-C is for the main process.
    const child = fork(program, {
      env: { ...environment, PATH: path, [ownerVariable]: mark },
      stdio: ['pipe', 'ignore', 'inherit', 'ipc'],
      execArgv: ['--max-semi-space-size=1'],
      detached: true,
    })
    current = child
    const theirs = new Map<number, Known>()
    known = theirs
    child.on('error', (error) => {
      log.error({ err: error }, 'git spawn helper failed')
      // A process that could not be started emits no `exit`.
      if (child.pid === undefined) end()
    })
    child.on('message', (message, handle) => {
      // From spawn-helper-main.ts, which is part of this program and passes only sockets.
      receive(theirs, message as SpawnReport, handle as Socket | undefined)
    })
    child.once('exit', (exitCode, signal) => {
      if (!isDisposed) log.error({ exitCode, signal }, 'git spawn helper ended unexpectedly')
      end()
    })
    child.send(
      { variables: { ...variables, [ownerVariable]: mark } } satisfies SpawnRequest,
      () => {},
    )

    function end(): void {
      current = undefined
      starting = undefined
      ready.clear()
      for (const [id, preforked] of theirs) {
        killGroup(preforked.pid, 'SIGKILL')
        abandon(theirs, id, hasEnded)
      }
      for (const { reject } of waiting.splice(0)) reject(new Error(hasEnded))
    }
  }

  function requestProcess(): void {
    const id = ++lastId
    known.set(id, {
      pid: undefined,
      pipes: {},
      listen: () => {},
      end: Promise.withResolvers(),
      isComplete: false,
    })
    current?.send({ id } satisfies SpawnRequest, () => {})
  }

  function refill(): void {
    const pending = [...known.values()].filter(({ isComplete }) => !isComplete).length
    for (
      let missing = waiting.length + spareProcesses - ready.size - pending;
      missing > 0;
      missing--
    )
      requestProcess()
  }

  function receive(theirs: Map<number, Known>, message: SpawnReport, handle?: Socket): void {
    const preforked = theirs.get(message.id)
    if (!preforked) handle?.destroy()
    else if ('stderr' in message) preforked.listen(message.stderr)
    else if ('pipe' in message) receivePipe(preforked, message, handle)
    else if (!preforked.isComplete)
      abandon(theirs, message.id, message.error ?? 'A process was killed.')
    else {
      theirs.delete(message.id)
      ready.delete(message.id)
      preforked.end.resolve({ exitCode: message.exitCode, signal: message.signal })
    }
  }

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
    deliver(message.id, {
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

  function deliver(id: number, preforked: PreforkedProcess): void {
    const first = waiting.shift()
    if (first) first.resolve(preforked)
    else ready.set(id, preforked)
  }

  /** Forgets a process that will not report its end. */
  function abandon(theirs: Map<number, Known>, id: number, reason: string): void {
    const preforked = theirs.get(id)
    theirs.delete(id)
    preforked?.end.resolve({ exitCode: null, signal: null })
    if (preforked?.isComplete) return
    for (const pipe of Object.values(preforked?.pipes ?? {})) pipe.destroy()
    // Where no process can be started, callers would otherwise wait for ever.
    waiting.shift()?.reject(new Error(reason))
  }

  async function wake(): Promise<void> {
    starting ??= startHelper().catch((error) => {
      starting = undefined
      throw error
    })
    await starting
    refill()
  }

  async function take(): Promise<PreforkedProcess> {
    const [first] = ready
    if (first && current) {
      ready.delete(first[0])
      refill()
      return first[1]
    }
    const pending = Promise.withResolvers<PreforkedProcess>()
    waiting.push(pending)
    wake().catch((error) => pending.reject(error))
    // A helper that does not respond is killed, and replaced on demand.
    using _kill = setTimeout(() => current?.kill('SIGKILL'), preforkTimeoutMs)
    return await pending.promise
  }

  return {
    preforkerWith(own) {
      variables = own
      return { take, prepare: () => void wake().catch(() => {}) }
    },

    async [Symbol.asyncDispose]() {
      isDisposed = true
      const child = current
      if (!child) return
      child.stdin?.destroy()
      using _kill = setTimeout(() => child.kill('SIGKILL'), exitWithinMs)
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    },
  }
}
