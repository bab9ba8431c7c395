import type { Access } from '#access/access-watch.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { Settings } from '#config/settings.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import { createRefCache } from '#git/refs/ref-cache.ts'
import type { Route } from '#http/route.ts'
import type { CreateLoginLink } from '#identity/sessions/login-links.ts'
import type { SshKeys } from '#identity/ssh-keys/ssh-keys.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import type { LfsLocks } from '#repositories/lfs-locks.ts'
import type { LfsObjects } from '#repositories/lfs-objects.ts'
import { createApiWrites } from './api-writes/api-writes.ts'
import type { ProposeCommit } from './api-writes/create-commit.ts'
import type { FindConflict } from './api-writes/find-conflict.ts'
import type { MergeBranch } from './api-writes/merge-branch.ts'
import type { MergeChain } from './api-writes/merge-chain.ts'
import { createGitEngine, type GitCounts } from './git-engine.ts'
import { gitRoutes } from './http/git-routes.ts'
import { lfsRoutes } from './lfs/lfs-routes.ts'
import { createLfsTokens, type LfsTokens } from './lfs/lfs-tokens.ts'
import { createPushHolds } from './push/push-holds.ts'
import { createPushes, type Pushes, type PushesParts } from './pushes/pushes.ts'
import { createGitLimiters, type LimiterKind } from './requests/git-limiters.ts'
import type { FetchSource, Operation } from './requests/operations.ts'
import { createSmallPacks } from './small-packs/small-packs.ts'
import { type SshProcess, startSshProcess } from './ssh/ssh-process.ts'

/** Git over HTTP and SSH, and changes through the API: serves fetches, and pushes with their records. */
export type GitServer = Disposable & {
  /** The routes of Git over HTTP, of the journal of pushes, and of changes without a clone. */
  routes: Route[]
  defaultBranches: Pushes['defaultBranches']
  checkPush: Pushes['checkPush']
  pusherOf: Pushes['pusherOf']
  hasUnfinishedPushes: Pushes['hasUnfinished']
  /** Makes a version of a change of a commit of the repository. */
  makeVersion: Pushes['makeVersion']
  mergeBranch: MergeBranch
  proposeCommit: ProposeCommit
  findConflict: FindConflict
  mergeChain: MergeChain
  /** Keeps commits that belong to no branch. */
  commits: Pushes['commits']
  /** Makes updates without a client's git. */
  applyUpdates: Pushes['apply']
  /** The principal of a token of `git-lfs-authenticate`; undefined for any other token. */
  authenticateLfs: LfsTokens['authenticate']
  /** Finalizes or discards every unfinished push whose git has ended. */
  finalizePushes: Pushes['sweep']
  /** Starts the SSH process; undefined when SSH is off. */
  startSsh: (options: SshOptions) => Promise<SshProcess | undefined>
  /** Periodic work, by its name in the log. */
  sweeps: Record<string, () => Promise<void>>
  /** The git processes and the caches of this process, and the fetches and pushes of both processes. */
  count: () => GitCounts & { limiters: Record<LimiterKind, { running: number; waiting: number }> }
  /** Refuses the pushes that wait for their runs: the server is about to stop. */
  endWaits: () => void
  /** Waits until all pushes are finalized. */
  drain: () => Promise<void>
}

type SshOptions = {
  /** The search path for programs, in the form of PATH. */
  path: string
}

type Dependencies = Omit<PushesParts, 'limiters'> & {
  /** Readers of objects, which requests share. */
  pool: Pick<ObjectPool, 'of'>
  directories: Directories
  sshKeys: SshKeys
  createLoginLink: CreateLoginLink
  freeSpace: FreeSpace
  lfsObjects: LfsObjects
  lfsLocks: LfsLocks
  settings: Settings
  /** The public base URL of the service. */
  baseUrl: () => string
  /** Throws the Problem that a new request would get now. */
  recheckAccess: (access: Access) => Promise<void>
  /** Throws the Problem of a part of the service that is unavailable. */
  requireParts: () => Promise<void>
  /** Called when an operation has ended. */
  onOperation: (operation: Operation & { via: string }) => void
  /** Called for each transfer of a Git LFS object. */
  onTransfer: (
    repositoryId: string,
    transfer: { receivedBytes?: number; sentBytes?: number },
  ) => void
  /** Called for each fetch. */
  onFetch: (fetched: { source: FetchSource; via: string }) => void
}

export function createGitServer(dependencies: Dependencies): GitServer {
  const { repositories, store, settings, log } = dependencies
  const { sshKeys, createLoginLink, recheckAccess, requireParts } = dependencies
  const { onOperation, onFetch } = dependencies
  // A client may take any time, and the directory of a repository may be evicted from the cache of a shared store.
  const limiters = createGitLimiters(settings, (id) => store.at({ id, version: 0 }))
  const pushHolds = createPushHolds(dependencies)
  const pushes = createPushes({ ...dependencies, limiters })
  const refCache = createRefCache({
    git: dependencies.git,
    maxBytes: settings.refsCacheBytes,
  })
  const smallPacks = createSmallPacks({ ...dependencies, refCache })
  const engine = createGitEngine({
    ...{ ...dependencies, pushes, pushHolds, limiters, refCache, smallPacks },
    via: 'http',
    onOperation: (operation) => onOperation({ ...operation, via: 'http' }),
    onFetch: (source) => onFetch({ source, via: 'http' }),
  })
  const apiWrites = createApiWrites({
    ...{ ...dependencies, pushes, pushHolds, limiters, smallPacks },
    onOperation: (operation) => onOperation({ ...operation, via: 'api' }),
  })
  const lfsTokens = createLfsTokens(dependencies)
  const sshParts = {
    createLfsToken: lfsTokens.create,
    sshKeys,
    createLoginLink,
    repositories,
    recheckAccess,
    requireParts,
    reclaim: store.reclaim,
    pushes,
    pushHolds,
    limiters,
    onOperation: (operation: Operation) => onOperation({ ...operation, via: 'ssh' }),
    onFetch: (source: FetchSource) => onFetch({ source, via: 'ssh' }),
  }

  return {
    routes: [
      ...pushes.routes,
      ...apiWrites.routes,
      ...gitRoutes({ repositories, engine, settings }),
      ...lfsRoutes(dependencies),
    ],
    defaultBranches: pushes.defaultBranches,
    checkPush: pushes.checkPush,
    pusherOf: pushes.pusherOf,
    hasUnfinishedPushes: pushes.hasUnfinished,
    makeVersion: pushes.makeVersion,
    mergeBranch: apiWrites.mergeBranch,
    proposeCommit: apiWrites.proposeCommit,
    findConflict: apiWrites.findConflict,
    mergeChain: apiWrites.mergeChain,
    commits: pushes.commits,
    applyUpdates: pushes.apply,
    authenticateLfs: lfsTokens.authenticate,
    finalizePushes: pushes.sweep,

    async startSsh({ path }) {
      const { sshPort: port } = settings
      if (port === 'off') return undefined
      return startSshProcess({ settings, port, path, parts: sshParts, log })
    },

    sweeps: {
      'push clean-up': () => pushes.sweep(),
      'retained commit expiry': pushes.expire,
      'push journal pruning': pushes.prune,
    },

    count: () => ({
      ...engine.count(),
      limiters: { fetch: limiters.fetch.counts(), push: limiters.push.counts() },
    }),

    endWaits: pushes.endWaits,
    drain: pushes.drain,

    [Symbol.dispose]: () => engine[Symbol.dispose](),
  }
}
