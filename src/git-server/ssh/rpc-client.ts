import type { RepositoryHolds } from '../../repositories/repository-holds.ts'
import type { Pushes } from '../receive-pack/pushes.ts'
import type { GitLimiters, LimiterKind } from '../requests/git-limiters.ts'
import type { Operation } from '../requests/operations.ts'
import type { FetchSource } from '../upload-pack/response-cache.ts'
import type { SshRpcServer } from './rpc-server.ts'

/** The functions of the main process that the engine and the SSH transport call from the SSH process. */
export function createSshRpcClient(backend: SshRpcServer) {
  let lastId = 0

  function turnsOf(kind: LimiterKind): GitLimiters[LimiterKind] {
    return {
      async acquire(keys, signal) {
        signal.throwIfAborted()
        lastId += 1
        const id = lastId
        // Fails only when there is nobody left to be told.
        const end = () => void backend.endTurn(id).catch(() => {})
        signal.addEventListener('abort', end)
        try {
          await backend.takeTurn(id, kind, keys)
        } finally {
          signal.removeEventListener('abort', end)
        }
        return { [Symbol.dispose]: end }
      },
    }
  }

  const repositoryHolds: Pick<RepositoryHolds, 'acquire'> = {
    async acquire(repositoryId) {
      lastId += 1
      const id = lastId
      await backend.enter(id, repositoryId)
      let exitCode: Promise<number | null> | undefined
      return {
        watch(ended) {
          exitCode = ended.then((how) => how.exitCode).catch(() => null)
        },
        async [Symbol.asyncDispose]() {
          await backend.leave(id, await exitCode)
        },
      }
    },
  }

  const pushes: Pick<Pushes, 'authorize' | 'finalize'> = {
    async authorize(push, updates) {
      const id = await backend.authorize(
        push.principal,
        push.repository,
        updates,
        push.isFastForward,
      )
      if (id !== undefined) push.id = id
    },
    finalize: async ({ id }) => id === undefined || backend.finalize(id),
  }

  // A count that is lost with the process is no loss.
  const onOperation = (operation: Operation) => void backend.observe(operation).catch(() => {})
  const onFetch = (source: FetchSource) => void backend.observeFetch(source).catch(() => {})

  const turns = { fetch: turnsOf('fetch'), push: turnsOf('push') }
  return { turns, repositoryHolds, pushes, onOperation, onFetch }
}
