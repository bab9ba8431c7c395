import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Log } from '#base/log.ts'
import type { SpawnReport, SpawnRequest } from './helper-processes.ts'
import { createHelperProcesses, type HelperProcesses } from './helper-processes.ts'
import { endOrphans, ownerVariable } from './orphans.ts'
import type { PreforkedProcess, Preforker } from './preforked-process.ts'

export type SpawnHelper = AsyncDisposable & {
  /** Returns preforked processes with these variables. For a single caller. */
  preforkerWith: (variables: Record<string, string>) => Preforker
}

type Options = {
  /** Marks the helper and its preforked processes, for endOrphans. */
  owner: string
  path: string
  log: Log
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
export function createSpawnHelper({ owner, path, log }: Options): SpawnHelper {
  const mark = `starter:${owner}`
  const ready = new Map<number, PreforkedProcess>()
  const waiting: PromiseWithResolvers<PreforkedProcess>[] = []
  let variables: Record<string, string> = {}
  let processes: HelperProcesses | undefined
  let current: ChildProcess | undefined
  let starting: Promise<void> | undefined
  let isDisposed = false

  async function startHelper(): Promise<void> {
    // Processes of a server that was killed.
    await endOrphans(mark)
    if (isDisposed) throw new Error('The service is stopping.')
    // Detached into its own session: Ctrl-C is for the main process.
    const child = fork(program, {
      env: { PATH: path, [ownerVariable]: mark },
      stdio: ['pipe', 'ignore', 'inherit', 'ipc'],
      execArgv: ['--max-semi-space-size=1'],
      detached: true,
    })
    current = child
    const started = createHelperProcesses({
      request: (id) => child.send({ id } satisfies SpawnRequest, () => {}),
      onReady: deliver,
      onEnded: (id) => ready.delete(id),
      onFailed: rejectFirst,
    })
    processes = started
    child.on('error', (error) => {
      log.error({ err: error }, 'git spawn helper failed')
      // A process that could not be started emits no `exit`.
      if (child.pid === undefined) end()
    })
    child.on('message', (message, handle) => {
      // From spawn-helper-main.ts, which is part of this program and passes only sockets.
      started.receive(message as SpawnReport, handle as Socket | undefined)
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
      started.abandonAll(hasEnded)
      for (const { reject } of waiting.splice(0)) reject(new Error(hasEnded))
    }
  }

  function refill(): void {
    const pending = processes?.countPending() ?? 0
    const missing = waiting.length + spareProcesses - ready.size - pending
    for (let left = missing; left > 0; left--) processes?.start()
  }

  function deliver(id: number, preforked: PreforkedProcess): void {
    const first = waiting.shift()
    if (first) first.resolve(preforked)
    else ready.set(id, preforked)
  }

  /** Where no process can be started, callers would otherwise wait for ever. */
  function rejectFirst(reason: string): void {
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
