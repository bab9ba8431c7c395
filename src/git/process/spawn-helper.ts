import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../base/log.ts'
import { endOrphans, ownerVariable } from './orphans.ts'
import type { ExitStatus, PreforkedProcess, Preforker } from './preforked-process.ts'
import { killGroup } from './process-group.ts'

/** What the starter is told: first the variables of all seats, then the number of each that it shall start. */
export type SpawnRequest = { variables: Record<string, string> } | { id: number }

/** What it tells of a seat: its pipes one by one, each with its end as a handle, what it says, and how it ended. */
export type SpawnReport =
  | { id: number; pid: number | undefined; pipe: PipeName }
  | { id: number; said: string }
  | ({ id: number; fault?: string } & ExitStatus)

export type PipeName = 'stdin' | 'stdout' | 'channel'

export type SpawnHelper = AsyncDisposable & {
  /** Seats with these variables: for one caller. */
  preforkerWith: (variables: Record<string, string>) => Preforker
}

type Options = {
  /** Marks the process and its seats until they become something, for endOrphans. */
  owner: string
  path: string
  /** The environment in which the process starts. */
  environment: Record<string, string | undefined>
  log: Log
}

/** A seat of which not all has arrived, or which has not ended. */
type Known = {
  pid: number | undefined
  pipes: Partial<Record<PipeName, Socket>>
  listen: (text: string) => void
  end: PromiseWithResolvers<ExitStatus>
  isWhole: boolean
}

const program = fileURLToPath(
  new URL(`../../spawn-helper-main${extname(import.meta.url)}`, import.meta.url),
)
// As many as one request with what follows from it takes at once.
const spareProcesses = 3
const preforkTimeoutMs = 15_000
const exitWithinMs = 2000
const hasEnded = 'The process that starts gits has ended.'

/**
 * Starts processes from a small process of its own. To start one takes time in proportion to the memory of
 * the process that does it (fork(2) copies its page tables), in which a server does nothing else. The ends
 * of the pipes are handed over (unix(7), SCM_RIGHTS), so that no byte passes through the starter. One
 * that ends takes all its seats with it; another is started when it is wanted.
 */
export function createSpawnHelper({ owner, path, environment, log }: Options): SpawnHelper {
  const mark = `starter:${owner}`
  const ready = new Map<number, PreforkedProcess>()
  const waiting: PromiseWithResolvers<PreforkedProcess>[] = []
  let variables: Record<string, string> = {}
  let known = new Map<number, Known>()
  let current: ChildProcess | undefined
  let beginning: Promise<void> | undefined
  let lastId = 0
  let isOver = false

  async function begin(): Promise<void> {
    // What a server that was killed has left.
    await endOrphans(mark)
    if (isOver) throw new Error('The service is stopping.')
    // A session of its own: Ctrl-C is for the main process.
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
      log.error({ err: error }, 'the starter of gits has a fault')
      // Of one that could not be started nothing more is heard.
      if (child.pid === undefined) end()
    })
    child.on('message', (message, handle) => {
      // Said by spawn-helper-main.ts, which is a part of this program, and hands over nothing but sockets.
      receive(theirs, message as SpawnReport, handle as Socket | undefined)
    })
    child.once('exit', (exitCode, signal) => {
      if (!isOver) log.error({ exitCode, signal }, 'the starter of gits ended by itself')
      end()
    })
    child.send(
      { variables: { ...variables, [ownerVariable]: mark } } satisfies SpawnRequest,
      () => {},
    )

    function end(): void {
      current = undefined
      beginning = undefined
      ready.clear()
      for (const [id, preforked] of theirs) {
        killGroup(preforked.pid, 'SIGKILL')
        lose(theirs, id, hasEnded)
      }
      for (const wanted of waiting.splice(0)) wanted.reject(new Error(hasEnded))
    }
  }

  function ask(): void {
    const id = ++lastId
    known.set(id, {
      pid: undefined,
      pipes: {},
      listen: () => {},
      end: Promise.withResolvers(),
      isWhole: false,
    })
    current?.send({ id } satisfies SpawnRequest, () => {})
  }

  function refill(): void {
    const pending = [...known.values()].filter(({ isWhole }) => !isWhole).length
    for (
      let missing = waiting.length + spareProcesses - ready.size - pending;
      missing > 0;
      missing--
    )
      ask()
  }

  function receive(theirs: Map<number, Known>, message: SpawnReport, handle?: Socket): void {
    const preforked = theirs.get(message.id)
    if (!preforked) handle?.destroy()
    else if ('said' in message) preforked.listen(message.said)
    else if ('pipe' in message) takePipe(preforked, message, handle)
    else if (!preforked.isWhole) lose(theirs, message.id, message.fault ?? 'A process was killed.')
    else {
      theirs.delete(message.id)
      ready.delete(message.id)
      preforked.end.resolve({ exitCode: message.exitCode, signal: message.signal })
    }
  }

  function takePipe(
    preforked: Known,
    message: Extract<SpawnReport, { pipe: PipeName }>,
    handle?: Socket,
  ): void {
    preforked.pid = message.pid
    // Without a handle it has ended meanwhile, which is told next.
    if (!handle) return
    handle.on('error', () => {})
    preforked.pipes[message.pipe] = handle
    const { stdin, stdout, channel } = preforked.pipes
    if (!stdin || !stdout || !channel) return
    preforked.isWhole = true
    give(message.id, {
      pid: preforked.pid,
      stdin,
      stdout,
      channel,
      listen: (take) => {
        preforked.listen = take
      },
      ended: preforked.end.promise,
    })
  }

  function give(id: number, preforked: PreforkedProcess): void {
    const first = waiting.shift()
    if (first) first.resolve(preforked)
    else ready.set(id, preforked)
  }

  /** Gives up a seat that nobody can be told the end of. */
  function lose(theirs: Map<number, Known>, id: number, why: string): void {
    const preforked = theirs.get(id)
    theirs.delete(id)
    preforked?.end.resolve({ exitCode: null, signal: null })
    if (preforked?.isWhole) return
    for (const pipe of Object.values(preforked?.pipes ?? {})) pipe.destroy()
    // Whoever waits would otherwise wait for ever where none can be started.
    waiting.shift()?.reject(new Error(why))
  }

  async function wake(): Promise<void> {
    beginning ??= begin().catch((error) => {
      beginning = undefined
      throw error
    })
    await beginning
    refill()
  }

  async function take(): Promise<PreforkedProcess> {
    const [first] = ready
    if (first && current) {
      ready.delete(first[0])
      refill()
      return first[1]
    }
    const wanted = Promise.withResolvers<PreforkedProcess>()
    waiting.push(wanted)
    wake().catch((error) => wanted.reject(error))
    // One that does not answer is as bad as one that has ended, and is made so.
    const timer = setTimeout(() => current?.kill('SIGKILL'), preforkTimeoutMs)
    return wanted.promise.finally(() => clearTimeout(timer))
  }

  return {
    preforkerWith(own) {
      variables = own
      return { take, prepare: () => void wake().catch(() => {}) }
    },

    async [Symbol.asyncDispose]() {
      isOver = true
      const child = current
      if (!child) return
      child.stdin?.destroy()
      const timer = setTimeout(() => child.kill('SIGKILL'), exitWithinMs)
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      clearTimeout(timer)
    },
  }
}
