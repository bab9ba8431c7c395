import { type ChildProcess, fork } from 'node:child_process'
import { extname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../base/log.ts'
import { type PlainSettings, withoutSecrets } from '../../config/settings.ts'
import { endOrphans, ownerVariable } from '../../git/process/orphans.ts'
import type { RefCounts } from '../../git/refs/ref-cache.ts'
import { connectRpc, type Wire } from '../../rpc/rpc.ts'
import type { Kept } from '../upload-pack/cache-store.ts'
import type { createSshRpcServer } from './rpc-server.ts'

/** What the main process asks of the SSH process. */
export type SshProcessFunctions = {
  /** Starts to listen; says where, or why it cannot. */
  start: (options: SshProcessOptions) => Promise<Listening | { fault: string }>
  /** Ends when the last command has; those that last longer are cut off. */
  stop: (timeoutMs: number) => Promise<void>
  /** Answers, and tells how many gits it runs, and what it keeps. */
  ping: () => Promise<{ gitProcesses: number; kept: Kept; refs: RefCounts }>
}

export type SshProcessOptions = { settings: PlainSettings; port: number; path: string }

export type Listening = { host: string; port: number }

type Options = SshProcessOptions & {
  /** Makes the side of the main process for an SSH process. */
  createBackend: () => ReturnType<typeof createSshRpcServer>
  log: Log
  /** The environment in which the process starts. */
  environment: Record<string, string | undefined>
}

const program = fileURLToPath(new URL(`../../ssh-main${extname(import.meta.url)}`, import.meta.url))
const restartAfterMs = 1000
const exitWaitMs = 2000
const pingEveryMs = 10_000
const unansweredMost = 3

/** Marks the SSH process of a data directory, and the git processes that it starts. */
export function sshOwner(dataDir: string): string {
  return `ssh:${dataDir}`
}

/**
 * Git over SSH in a process of its own: neither its encryption nor the packs that it carries keep the
 * API waiting, and what strangers send is read where there is no database and no secret. One that ends
 * by itself is started again.
 */
export async function startSshProcess({ createBackend, log, environment, ...options }: Options) {
  const { path } = options
  const settings = withoutSecrets(options.settings)
  const owner = sshOwner(settings.dataDir)
  let isStopping = false
  let pinging: NodeJS.Timeout | undefined
  let current = spawnProcess()
  const listening = await current.theirs.start({ settings, port: options.port, path })
  if ('fault' in listening) {
    await end()
    throw new Error(listening.fault)
  }
  const { host, port } = listening
  void keepRunning()
  pinging = setInterval(ping, pingEveryMs).unref()

  function spawnProcess() {
    // A session of its own: Ctrl-C is for the main process, and the system shares its time out by session.
    const child = fork(program, {
      env: { ...environment, PATH: path, [ownerVariable]: owner },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      serialization: 'advanced',
      detached: true,
    })
    const backend = createBackend()
    const remote = connectRpc<SshProcessFunctions>({
      wire: wireTo(child),
      ours: backend.functions,
      onFault: (error) => log.error({ err: error }, 'a request over SSH failed'),
    })
    const ended = new Promise<{ exitCode: number | null; signal: NodeJS.Signals | null }>(
      (resolve) => {
        child.on('error', (error) => log.error({ err: error }, 'the SSH server has a fault'))
        child.once('exit', (exitCode, signal) => {
          remote.close()
          resolve({ exitCode, signal })
        })
      },
    )
    return { child, backend, ended, theirs: remote.theirs, unanswered: 0 }
  }

  async function keepRunning(): Promise<void> {
    for (;;) {
      const how = await current.ended
      if (isStopping) return
      log.error(how, 'the SSH server ended by itself; it is started again')
      await startAgain().catch((error) => {
        log.error({ err: error }, 'the SSH server did not start; it is tried again')
        current.child.kill('SIGKILL')
      })
    }
  }

  /** Gives up what a process had that has ended. */
  async function clearUp(): Promise<void> {
    await endOrphans(owner)
    await current.backend.abandon()
  }

  async function startAgain(): Promise<void> {
    await clearUp()
    await sleep(restartAfterMs)
    if (isStopping) return
    current = spawnProcess()
    const answer = await current.theirs.start({ settings, port, path })
    if ('fault' in answer) throw new Error(answer.fault)
  }

  // One that does not answer is as bad as one that has ended, and is made so.
  function ping(): void {
    const asked = current
    asked.unanswered += 1
    if (asked.unanswered > unansweredMost) asked.child.kill('SIGKILL')
    asked.theirs.ping().then(
      () => {
        asked.unanswered = 0
      },
      () => {}, // It has ended, which is seen to elsewhere.
    )
  }

  /** It ends when nobody is connected to it, with what it started. */
  async function end(): Promise<void> {
    isStopping = true
    clearInterval(pinging)
    const { child, ended } = current
    if (child.connected) child.disconnect()
    const timer = setTimeout(() => child.kill('SIGKILL'), exitWaitMs)
    await ended
    clearTimeout(timer)
    await clearUp()
  }

  return {
    host,
    port,

    /** Takes no new clients and ends when the last command does; those that last longer are cut off. */
    async stop(timeoutMs: number): Promise<void> {
      isStopping = true
      const { child, theirs } = current
      const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs + exitWaitMs)
      await theirs.stop(timeoutMs).catch(async (error) => {
        log.error({ err: error }, 'the SSH server did not stop cleanly')
        await clearUp()
      })
      clearTimeout(timer)
    },

    end,

    /** How many git processes it runs, and what it keeps. */
    count: () => current.theirs.ping(),

    /** Has it end at once, for a program that is about to exit. */
    abandon(): void {
      isStopping = true
      if (current.child.connected) current.child.disconnect()
    },
  }
}

function wireTo(child: ChildProcess): Wire {
  return {
    // A process that is gone is told of by its exit.
    send: (message) => void child.send(message as object, () => {}),
    onMessage: (take) => void child.on('message', take),
  }
}
