import type { Tidying } from '../../repositories/repository-holds.ts'
import type { GitTurns, TurnKind } from '../git-limiters.ts'
import type { Operation } from '../operations.ts'
import type { Pushes } from '../receive-pack/pushes.ts'
import type { FetchSource } from '../upload-pack/response-cache.ts'
import type { SshBackend } from './rpc-server.ts'

/** What the engine and the door need, in the SSH process: each asks the main process. */
export function createSshFrontend(backend: SshBackend) {
  let lastId = 0

  function turnsOf(kind: TurnKind): GitTurns[TurnKind] {
    return {
      async take(keys, signal) {
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

  const tidying: Pick<Tidying, 'enter'> = {
    async enter(repositoryId) {
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

  const pushes: Pick<Pushes, 'judge' | 'finish'> = {
    async judge(push, updates) {
      const id = await backend.judge(push.principal, push.repository, updates, push.isFastForward)
      if (id !== undefined) push.id = id
    },
    finish: async ({ id }) => id === undefined || backend.finish(id),
  }

  // A count that is lost with the process is no loss.
  const onOperation = (operation: Operation) => void backend.observe(operation).catch(() => {})
  const onFetch = (source: FetchSource) => void backend.observeFetch(source).catch(() => {})

  const turns = { fetch: turnsOf('fetch'), push: turnsOf('push') }
  return { turns, tidying, pushes, onOperation, onFetch }
}
