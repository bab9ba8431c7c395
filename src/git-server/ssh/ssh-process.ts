import { type ChildProcess, fork } from 'node:child_process'
import type { Server, Socket } from 'node:net'
import { extname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createPoller } from '#base/concurrency/poller.ts'
import { acceptableConnections } from '#base/descriptors.ts'
import type { Log } from '#base/log.ts'
import { reachable } from '#base/network.ts'
import { within } from '#base/timeouts.ts'
import { type PlainSettings, type Settings, withoutSecrets } from '#config/settings.ts'
import { endOrphans, ownerVariable } from '#git/process/orphans.ts'
import type { ExitStatus } from '#git/process/preforked-process.ts'
import { openHostKey } from '#ssh/host-key.ts'
import { openSshPort } from '#ssh/ssh-port.ts'
import type { GitCounts } from '../git-engine.ts'
import { connectRpc, type Wire } from '../rpc/rpc.ts'
import { createSshRpcServer, type SshRpcParts, type SshRpcSide } from './rpc-server.ts'

/** The functions that the main process calls in the SSH process. */
export type SshProcessFunctions = {
  /** Prepares for clients; returns why that failed, if it did. */
  start: (options: SshProcessOptions) => Promise<string | undefined>
  /** Waits for running commands to end; those that exceed the timeout are cut off. */
  stop: (timeoutMs: number) => Promise<void>
  ping: () => Promise<GitCounts>
  /** Shows a line to the client of a waiting push. */
  showProgress: (wait: number, line: string) => Promise<void>
}

export type SshProcessOptions = { settings: PlainSettings; path: string }

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
  /** The port to listen on. */
  port: number
  parts: SshRpcParts
  log: Log
}

type SpawnedProcess = {
  child: ChildProcess
  side: SshRpcSide
  remote: SshProcessFunctions
  ended: Promise<ExitStatus>
}

const program = fileURLToPath(new URL(`../../ssh-main${extname(import.meta.url)}`, import.meta.url))
const restartAfterMs = 1000
// Until the process runs, which then applies the configured limits.
const maxWaitingClients = 1000
const exitWaitMs = 2000
const pingIntervalMs = 10_000
const pingTimeoutMs = 30_000

/** The message with which the listening port, and each client, is handed over to the SSH process. */
export const handedOver = 'handed over'

/** The counts of an SSH process that does not run. */
export const notRunning: GitCounts = {
  processes: 0,
  responses: { entries: 0, bytes: 0 },
  refs: { hit: 0, read: 0, git: 0, bytes: 0 },
}

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
 * unauthenticated clients is parsed where there is no database and no secret. The process starts with the first client:
 * a server without SSH clients saves its memory. After a crash, the next client starts another one.
 */
export async function startSshProcess(options: Options): Promise<SshProcess> {
  const { path, parts, log } = options
  const settings = withoutSecrets(options.settings)
  const owner = sshOwner(settings.dataDir)
  // Here as well, so that a missing key fails the start of the server.
  await openHostKey({
    dataDir: settings.dataDir,
    file: settings.sshHostKeyFile,
    onCreated: (file) => log.info({ path: file }, 'SSH host key created'),
  })
  let openPort = await listen(options.port)
  const { host, port } = openPort
  let current: SpawnedProcess | undefined
  let isStopping = false
  const serving = serve()
  const pinging = createPoller({ intervalMs: pingIntervalMs, run: ping, onError() {} })

  function listen(port: number) {
    const maxClients = Math.min(maxWaitingClients, acceptableConnections())
    return openSshPort({ host: settings.sshHost, port, maxClients })
  }

  function spawnProcess(): SpawnedProcess {
    // A separate session: Ctrl-C is for the main process, and the kernel schedules by session (autogroup, sched(7)).
    const child = fork(program, {
      env: { PATH: path, [ownerVariable]: owner },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      serialization: 'advanced',
      detached: true,
    })
    const side = createSshRpcServer(parts, (wait, line) => {
      // Fails only when the process has gone.
      void connection.remote.showProgress(wait, line).catch(() => {})
    })
    const connection = connectRpc<SshProcessFunctions>({
      wire: wireTo(child),
      local: side.functions,
      onFault: (error) => log.error({ err: error }, 'ssh request failed'),
    })
    const ended = new Promise<ExitStatus>((resolve) => {
      child.on('error', (error) => log.error({ err: error }, 'ssh process error'))
      child.once('exit', (exitCode, signal) => {
        connection.close()
        resolve({ exitCode, signal })
      })
    })
    return { child, side, ended, remote: connection.remote }
  }

  /** Runs a process from the first client on, and another one after each that ends unexpectedly. */
  async function serve(): Promise<void> {
    for (;;) {
      if (!isStopping) await openPort.firstClient
      if (isStopping) return openPort[Symbol.dispose]()
      const started = spawnProcess()
      current = started
      await startUp(started).catch((error) => {
        if (!isStopping) log.error({ err: error }, 'ssh process failed to start; retrying')
        started.child.kill('SIGKILL')
      })
      const end = await started.ended
      current = undefined
      if (!isStopping) log.error(end, 'ssh process ended unexpectedly; restarting')
      await cleanUp(started).catch((error) =>
        log.error({ err: error }, 'clean-up after the ssh process failed'),
      )
      await reopen()
    }
  }

  async function startUp({ child, remote }: SpawnedProcess): Promise<void> {
    using clientsToServe = openPort
    const fault = await remote.start({ settings, path })
    if (fault !== undefined) throw new Error(fault)
    if (!isStopping) await clientsToServe.handOver((handle) => handOver(child, handle))
  }

  /** Ends the git processes of an SSH process that has ended and releases what it held. */
  async function cleanUp({ side }: SpawnedProcess): Promise<void> {
    await endOrphans(owner)
    await side.abandon()
  }

  async function reopen(): Promise<void> {
    while (!isStopping) {
      await sleep(restartAfterMs)
      try {
        openPort = await listen(port)
        return
      } catch (error) {
        log.error({ err: error }, 'ssh port cannot be opened again; retrying')
      }
    }
  }

  // A process that does not respond is killed, and then restarted.
  async function ping(): Promise<void> {
    if (!current) return
    const { child, remote } = current
    try {
      await within(pingTimeoutMs, remote.ping())
    } catch {
      // It may have ended already.
      child.kill('SIGKILL')
    }
  }

  return {
    host,
    port,

    async stop(timeoutMs) {
      isStopping = true
      openPort[Symbol.dispose]()
      if (!current) return await serving
      const { child, remote } = current
      using _kill = setTimeout(() => child.kill('SIGKILL'), timeoutMs + exitWaitMs)
      await remote.stop(timeoutMs).catch(async (error) => {
        log.error({ err: error }, 'ssh process did not stop cleanly')
        child.kill('SIGKILL')
        await serving
      })
    },

    async end() {
      isStopping = true
      openPort[Symbol.dispose]()
      void pinging[Symbol.asyncDispose]()
      const child = current?.child
      if (child?.connected) child.disconnect()
      using _kill = setTimeout(() => child?.kill('SIGKILL'), exitWaitMs)
      await serving
    },

    count: async () => (await current?.remote.ping()) ?? notRunning,

    abandon() {
      isStopping = true
      if (current?.child.connected) current.child.disconnect()
    },
  }
}

function handOver(child: ChildProcess, handle: Server | Socket): Promise<void> {
  return new Promise((resolve, reject) =>
    child.send(handedOver, handle, (error) => (error ? reject(error) : resolve())),
  )
}

function wireTo(child: ChildProcess): Wire {
  return {
    // Errors are ignored: a process that has gone is noticed by its exit.
    send: (message) => void child.send(message as object, () => {}),
    onMessage: (take) => void child.on('message', take),
  }
}
