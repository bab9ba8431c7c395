import { systemClock } from './base/clock.ts'
import { closeInheritedDescriptors } from './base/inherited-descriptors.ts'
import { createLog } from './base/log.ts'
import { redactTokens } from './base/redact-tokens.ts'
import { dropStartupGarbage } from './base/startup-garbage.ts'
import { createFreeSpace } from './config/free-space.ts'
import { createGit, type Git } from './git/process/git-process.ts'
import { createSpawnHelper } from './git/process/spawn-helper.ts'
import { createRefCache, type RefCache } from './git/refs/ref-cache.ts'
import { createGitEngine } from './git-server/git-engine.ts'
import { createGitOverSsh } from './git-server/ssh/git-over-ssh.ts'
import { createSshRpcClient } from './git-server/ssh/rpc-client.ts'
import type { SshRpcServer } from './git-server/ssh/rpc-server.ts'
import { type SshProcessOptions, sshOwner } from './git-server/ssh/ssh-process.ts'
import { createResponseCache, type ResponseCache } from './git-server/upload-pack/response-cache.ts'
import { connectRpc } from './rpc/rpc.ts'
import { openHostKey } from './ssh/host-key.ts'
import { createSshServer } from './ssh/ssh-server.ts'

// The program of the SSH process. The main process starts it and controls it by messages; when the main process ends,
// for any reason, it exits.

closeInheritedDescriptors()

type Running = {
  git: Git
  responseCache: ResponseCache
  refCache: RefCache
  stop: (timeoutMs: number) => Promise<void>
}

const { NODE_COMPILE_CACHE } = process.env
let running: Running | undefined

const { theirs: backend } = connectRpc<SshRpcServer>({
  wire: {
    send: (message) => void process.send?.(message, undefined, {}, () => {}),
    onMessage: (listener) => void process.on('message', listener),
  },
  ours: {
    start: (options: SshProcessOptions) =>
      start(options).catch((error: Error) => ({ fault: error.message })),
    stop: async (timeoutMs: number) => running?.stop(timeoutMs),
    ping: async () => ({
      gitProcesses: running?.git.count() ?? 0,
      kept: running?.responseCache.count() ?? { entries: 0, bytes: 0 },
      refs: running?.refCache.count() ?? { hit: 0, read: 0, git: 0, bytes: 0 },
    }),
  },
  onFault: (error) => process.stderr.write(`${redactTokens(String(error))}\n`),
})

process.once('disconnect', () => {
  running?.git.killAll()
  process.exit()
})
// A stop of the service may signal all its processes; this one ends when the main process says so.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

async function start({ settings, port, path }: SshProcessOptions) {
  const log = createLog({ level: settings.logLevel, output: process.stderr })
  const owner = sshOwner(settings.dataDir)
  const spawnHelper = createSpawnHelper({ owner, path, environment: { NODE_COMPILE_CACHE }, log })
  const git = createGit({ ...settings, owner, path, spawnHelper })
  const freeSpace = createFreeSpace({ folder: settings.dataDir, least: settings.freeSpaceLeast })
  const refCache = createRefCache({ git, maxBytes: settings.refsCacheBytes })
  const frontend = createSshRpcClient(backend)
  const { onFetch } = frontend
  const responseCache = createResponseCache({ settings, freeSpace, clock: systemClock, onFetch })
  const engine = createGitEngine({
    git,
    refCache,
    responseCache,
    ...frontend,
    via: 'ssh',
    freeSpace,
    settings,
    log,
  })
  const via = createGitOverSsh({ engine, backend, settings, log })
  const hostKey = await openHostKey(settings.dataDir, (path) =>
    log.info({ path }, 'SSH host key created'),
  )
  const server = createSshServer({
    settings,
    hostKey,
    log,
    ...via,
    authenticate(claim, address) {
      // Starts the spawn helper with the first login: the client probably needs git next.
      git.prepare()
      return via.authenticate(claim, address)
    },
  })
  const listening = await server.listen(port)
  running = {
    git,
    responseCache,
    refCache,
    async stop(timeoutMs) {
      await server.stop(timeoutMs)
      await via.drain()
    },
  }
  dropStartupGarbage()
  return listening
}
