import type { OnProgress } from '#git/protocol/hook-channel.ts'
import type { Push, PushAuthority } from '../push/push.ts'
import type { PushHolds } from '../push/push-holds.ts'
import type { GitLimiters, LimiterKind } from '../requests/git-limiters.ts'
import type { FetchSource, Operation } from '../requests/operations.ts'
import type { SshPush, SshRpcServer } from './rpc-server.ts'

/** The parts of the Git engine in the SSH process that call the main process. */
type SshRpcClient = {
  limiters: GitLimiters
  pushHolds: PushHolds
  pushes: PushAuthority
  /** Shows a line to the client of a waiting push. */
  showProgress: (wait: number, line: string) => void
  onOperation: (operation: Operation) => void
  onFetch: (source: FetchSource) => void
}

export function createSshRpcClient(backend: SshRpcServer): SshRpcClient {
  let lastId = 0

  function limiterFor(kind: LimiterKind): GitLimiters[LimiterKind] {
    return {
      async acquire(keys, signal) {
        signal.throwIfAborted()
        lastId += 1
        const id = lastId
        // Fails only when the main process has gone.
        const release = () => void backend.releasePermit(id).catch(() => {})
        signal.addEventListener('abort', release)
        try {
          await backend.acquirePermit(id, kind, keys)
        } finally {
          signal.removeEventListener('abort', release)
        }
        return { [Symbol.dispose]: release }
      },
    }
  }

  const pushHolds: PushHolds = {
    async acquire({ id: repositoryId, name, objectFormat }, format) {
      lastId += 1
      const id = lastId
      await backend.acquireHold(id, { id: repositoryId, name, objectFormat }, format)
      let exitCode: Promise<number | null> | undefined
      return {
        watch(ended) {
          exitCode = ended.then((end) => end.exitCode).catch(() => null)
        },
        async [Symbol.asyncDispose]() {
          await backend.releaseHold(id, await exitCode)
        },
      }
    },
  }

  const waits = new Map<number, OnProgress>()

  const pushes: PushAuthority = {
    async awaitRuns(push, updates, { onProgress, signal }) {
      signal.throwIfAborted()
      lastId += 1
      const wait = lastId
      waits.set(wait, onProgress)
      const end = () => void backend.endWait(wait).catch(() => {})
      signal.addEventListener('abort', end)
      try {
        push.runOptions = await backend.awaitRuns(wait, toSshPush(push), updates)
      } finally {
        signal.removeEventListener('abort', end)
        waits.delete(wait)
      }
    },
    requireBytesLeft: (repository, bytes) => backend.requireBytesLeft(repository, bytes),
    async authorize(push, updates) {
      const { id, result } = await backend.authorize(toSshPush(push), updates)
      if (id !== undefined) push.id = id
      return result
    },
    propose: (push, updates) => backend.propose(toSshPush(push), updates),
    finalize: async ({ id, refused }) => id === undefined || backend.finalize(id, refused),
  }

  // Metrics may be lost when the main process ends.
  const onOperation = (operation: Operation) => void backend.observe(operation).catch(() => {})
  const onFetch = (source: FetchSource) => void backend.observeFetch(source).catch(() => {})

  const limiters = { fetch: limiterFor('fetch'), push: limiterFor('push') }
  const showProgress = (wait: number, line: string) => waits.get(wait)?.(line)
  return { limiters, pushHolds, pushes, showProgress, onOperation, onFetch }
}

function toSshPush(push: Push): SshPush {
  const { principal, repository, isFastForward, isAtomic } = push
  const { quarantine, allowedLeaks, proposal, runOptions } = push
  return {
    principal,
    repository,
    isFastForward,
    isAtomic,
    quarantine,
    allowedLeaks,
    proposal,
    runOptions,
  }
}
