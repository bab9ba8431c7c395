import { type ChildProcess, fork } from 'node:child_process'
import { extname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../base/log.ts'
import { reachable } from '../../base/network.ts'
import { within } from '../../base/timeouts.ts'
import { createPoller, type Poller } from '../../concurrency/poller.ts'
import { type PlainSettings, type Settings, withoutSecrets } from '../../config/settings.ts'
import { endOrphans, ownerVariable } from '../../git/process/orphans.ts'
import { connectRpc, type Wire } from '../../rpc/rpc.ts'
import type { GitCounts } from '../git-engine.ts'
import { createSshRpcServer, type SshRpcParts } from './rpc-server.ts'

/** The functions that the main process calls in the SSH process. */
export type SshProcessFunctions = {
  /** Starts to listen; returns the address, or why that failed. */
  start: (options: SshProcessOptions) => Promise<Listening | { fault: string }>
  /** Waits for running commands to end; those that exceed the timeout are cut off. */
  stop: (timeoutMs: number) => Promise<void>
  ping: () => Promise<GitCounts>
  /** Shows a line to the client of a waiting push. */
  showProgress: (wait: number, line: string) => Promise<void>
}

export type SshProcessOptions = { settings: PlainSettings; port: number; path: string }

type Listening = { host: string; port: number }

export type SshProcess = Listening & {
  /** Accepts no new clients and waits for running commands; those that exceed the timeout are cut off. */
  stop: (timeoutMs: number) => Promise<void>
  /** Ends the process: it exits when its IPC channel closes. */
  end: () => Promise<void>
  count: () => Promise<GitCounts>
  /** Ends the process without waiting, for a program that is about to exit. */
  abandon: () => void
}

type Options = SshProcessOptions & {
  parts: SshRpcParts
  log: Log
}

const program = fileURLToPath(new URL(`../../ssh-main${extname(import.meta.url)}`, import.meta.url))
const restartAfterMs = 1000
const exitWaitMs = 2000
const pingIntervalMs = 10_000
const pingTimeoutMs = 30_000

/** The SSH user for clients with a key; clients without one use the anonymous user. */
export const sshUser = 'svc'

/** The SSH base URL for clients. Its host is that of the public base URL, and its port the public one, if they are set. */
export function toSshUrl(
  { baseUrl, sshPublicPort }: Pick<Settings, 'baseUrl' | 'sshPublicPort'>,
  { host, port }: Listening,
): string {
  const name = baseUrl === undefined ? host : new URL(baseUrl).hostname
  return reachable(`ssh://${sshUser}@${name}:${sshPublicPort ?? port}`)
}

/** Marks the SSH process of a data directory, and the git processes that it starts. */
export function sshOwner(dataDir: string): string {
  return `ssh:${dataDir}`
}

/**
 * Runs Git over SSH in a separate process. Encryption and pack data do not block the API's event loop, and input of
 * unauthenticated clients is parsed where there is no database and no secret. A process that crashes is restarted.
 */
export async function startSshProcess(options: Options): Promise<SshProcess> {
  const { port: wantedPort, path, parts, log } = options
  const settings = withoutSecrets(options.settings)
  const owner = sshOwner(settings.dataDir)
  let isStopping = false
  let pinging: Poller | undefined
  let current = spawnProcess()
  const listening = await current.theirs.start({ settings, port: wantedPort, path })
  if ('fault' in listening) {
    await end()
    throw new Error(listening.fault)
  }
  const { host, port } = listening
  void keepRunning()
  pinging = createPoller({ intervalMs: pingIntervalMs, run: ping, onError() {} })

  function spawnProcess() {
    // A separate session: Ctrl-C is for the main process, and the kernel schedules by session (autogroup, sched(7)).
    const child = fork(program, {
      env: { PATH: path, [ownerVariable]: owner },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      serialization: 'advanced',
      detached: true,
    })
    const side = createSshRpcServer(parts, (wait, line) => {
      // Fails only when the process has gone.
      void remote.theirs.showProgress(wait, line).catch(() => {})
    })
    const remote = connectRpc<SshProcessFunctions>({
      wire: wireTo(child),
      ours: side.functions,
      onFault: (error) => log.error({ err: error }, 'ssh request failed'),
    })
    const ended = new Promise<{ exitCode: number | null; signal: NodeJS.Signals | null }>(
      (resolve) => {
        child.on('error', (error) => log.error({ err: error }, 'ssh process error'))
        child.once('exit', (exitCode, signal) => {
          remote.close()
          resolve({ exitCode, signal })
        })
      },
    )
    return { child, side, ended, theirs: remote.theirs }
  }

  async function keepRunning(): Promise<void> {
    for (;;) {
      const end = await current.ended
      if (isStopping) return
      log.error(end, 'ssh process ended unexpectedly; restarting')
      await restart().catch((error) => {
        log.error({ err: error }, 'ssh process failed to start; retrying')
        current.child.kill('SIGKILL')
      })
    }
  }

  /** Ends the git processes of an SSH process that has ended and releases what it held. */
  async function cleanUp(): Promise<void> {
    await endOrphans(owner)
    await current.side.abandon()
  }

  async function restart(): Promise<void> {
    await cleanUp()
    await sleep(restartAfterMs)
    if (isStopping) return
    current = spawnProcess()
    const result = await current.theirs.start({ settings, port, path })
    if ('fault' in result) throw new Error(result.fault)
  }

  // A process that does not respond is killed, and then restarted.
  async function ping(): Promise<void> {
    const { child, theirs } = current
    try {
      await within(pingTimeoutMs, theirs.ping())
    } catch {
      // It may have ended already.
      child.kill('SIGKILL')
    }
  }

  async function end(): Promise<void> {
    isStopping = true
    void pinging?.[Symbol.asyncDispose]()
    const { child, ended } = current
    if (child.connected) child.disconnect()
    using _kill = setTimeout(() => child.kill('SIGKILL'), exitWaitMs)
    await ended
    await cleanUp()
  }

  return {
    host,
    port,

    async stop(timeoutMs) {
      isStopping = true
      const { child, theirs } = current
      using _kill = setTimeout(() => child.kill('SIGKILL'), timeoutMs + exitWaitMs)
      await theirs.stop(timeoutMs).catch(async (error) => {
        log.error({ err: error }, 'ssh process did not stop cleanly')
        await cleanUp()
      })
    },

    end,

    count: () => current.theirs.ping(),

    abandon() {
      isStopping = true
      if (current.child.connected) current.child.disconnect()
    },
  }
}

function wireTo(child: ChildProcess): Wire {
  return {
    // Errors are ignored: a process that has gone is noticed by its exit.
    send: (message) => void child.send(message as object, () => {}),
    onMessage: (take) => void child.on('message', take),
  }
}
