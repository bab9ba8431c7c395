import { Server, type Socket } from 'node:net'
import { systemClock } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import { redactTokens } from '#base/redact-tokens.ts'
import { createFreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import { createObjectPool } from '#git/objects/object-pool.ts'
import { createGit, type Git } from '#git/process/git-process.ts'
import { createSpawnHelper } from '#git/process/spawn-helper.ts'
import { createRefCache } from '#git/refs/ref-cache.ts'
import { openHostKey } from '#ssh/host-key.ts'
import { createSshServer } from '#ssh/ssh-server.ts'
import { createGitEngine, type GitEngine } from '../git-engine.ts'
import { connectRpc, type Wire } from '../rpc/rpc.ts'
import { createSmallPacks } from '../small-packs/small-packs.ts'
import { createGitOverSsh } from './git-over-ssh.ts'
import { createSshRpcClient } from './rpc-client.ts'
import type { SshRpcServer } from './rpc-server.ts'
import {
  notRunning,
  type SshProcessFunctions,
  type SshProcessOptions,
  sshOwner,
} from './ssh-process.ts'

type Options = {
  /** Connects to the main process. */
  wire: Wire
  /** Receives the listening port and the clients that the main process hands over. */
  onHandle: (listener: (handle: Server | Socket) => void) => void
  createLog: (settings: PlainSettings) => Log
  /** Writes a line that is not in the log's format. */
  complain: (line: string) => void
  /** Called when it has started. */
  onStarted: () => void
}

type Running = {
  git: Git
  engine: GitEngine
  showProgress: (wait: number, line: string) => void
  stop: (timeoutMs: number) => Promise<void>
}

/** The part of the SSH process that serves Git over SSH, once the main process starts it over the wire. */
export function createSshProgram(options: Options): { killAll: () => void } {
  const { wire, onHandle, createLog, complain, onStarted } = options
  let running: Running | undefined

  const functions: SshProcessFunctions = {
    start: (given) => start(given).catch((error: Error) => error.message),
    stop: async (timeoutMs) => running?.stop(timeoutMs),
    ping: async () => running?.engine.count() ?? notRunning,
    showProgress: async (wait, line) => running?.showProgress(wait, line),
  }
  const { remote: backend } = connectRpc<SshRpcServer>({
    wire,
    local: functions,
    onFault: (error) => complain(redactTokens(String(error))),
  })

  async function start({ settings, path }: SshProcessOptions): Promise<undefined> {
    const log = createLog(settings)
    const owner = sshOwner(settings.dataDir)
    const spawnHelper = createSpawnHelper({ owner, path, log })
    const git = createGit({ settings, owner, path, spawnHelper })
    // Not for long: this process does not know when a repository is deleted.
    const pool = createObjectPool({ git, idleMs: 5000 })
    const freeSpace = createFreeSpace({
      folder: settings.dataDir,
      minBytes: settings.freeSpaceMinBytes,
      reclaim: backend.reclaim,
    })
    const client = createSshRpcClient(backend)
    const refCache = createRefCache({ git, maxBytes: settings.refsCacheBytes })
    // Only the main process ends at a fault point.
    const smallPacks = createSmallPacks({
      ...{ git, pool, refCache, settings, log },
      faultPoint: () => {},
    })
    const engine = createGitEngine({
      git,
      pool,
      via: 'ssh',
      pushes: client.pushes,
      pushHolds: client.pushHolds,
      limiters: client.limiters,
      freeSpace,
      settings,
      clock: systemClock,
      log,
      onOperation: client.onOperation,
      onFetch: client.onFetch,
      refCache,
      smallPacks,
    })
    const gitOverSsh = createGitOverSsh({ engine, backend, settings, log })
    const hostKey = await openHostKey({
      dataDir: settings.dataDir,
      file: settings.sshHostKeyFile,
      onCreated: (path) => log.info({ path }, 'SSH host key created'),
    })
    const server = createSshServer({
      settings,
      hostKey,
      log,
      nameOf: gitOverSsh.nameOf,
      serve: gitOverSsh.serve,
      authenticate(request, address) {
        // Starts the spawn helper with the first login: the client probably needs git next.
        git.prepare()
        return gitOverSsh.authenticate(request, address)
      },
    })
    onHandle((handle) => {
      if (handle instanceof Server) server.listen(handle)
      else void server.admit(handle)
    })
    running = {
      git,
      engine,
      showProgress: client.showProgress,
      async stop(timeoutMs) {
        await server.stop(timeoutMs)
        await gitOverSsh.drain()
        await pool[Symbol.asyncDispose]()
      },
    }
    onStarted()
  }

  return { killAll: () => running?.git.killAll() }
}
