import { isUsername } from '../access/names.ts'
import type { Clock } from '../base/clock.ts'
import { Problem } from '../base/problem.ts'
import type { Database } from '../database/database.ts'
import type { Actor, Publish } from '../events/events.ts'
import { deleteCollaborator, insertCollaborator, listCollaborators } from './collaborator-store.ts'
import type { Repository } from './repositories.ts'

export type Collaborators = {
  list: (repository: Repository) => Promise<{ repoName: string; collaborators: string[] }>
  /** Adds a username, even if no token has it yet. Idempotent. */
  add: (
    actor: Actor,
    repository: Repository,
    username: string,
  ) => Promise<{ repoName: string; collaborators: string[] }>
  /** Removes a username. A running push of theirs is refused when its hook runs. */
  remove: (actor: Actor, repository: Repository, username: string) => Promise<void>
}

/** Collaborators: the usernames that can see a repository besides its owner. */
type Dependencies = { db: Database; publish: Publish; clock: Clock }

export function createCollaborators({ db, publish, clock }: Dependencies): Collaborators {
  async function list(repository: Repository) {
    return {
      repoName: repository.name,
      collaborators: await listCollaborators(db, repository.id),
    }
  }

  return {
    list,

    async add(actor, repository, username) {
      const repositoryId = repository.id
      await db.transaction().execute(async (tx) => {
        if (!(await insertCollaborator(tx, { repositoryId, username, createdAt: clock.now() })))
          return
        await publish(tx, clock.now(), [
          { kind: 'collaborator.added', actor, repositoryId, data: { username } },
        ])
      })
      return list(repository)
    },

    async remove(actor, repository, username) {
      const repositoryId = repository.id
      await db.transaction().execute(async (tx) => {
        if (!isUsername(username) || !(await deleteCollaborator(tx, repositoryId, username))) {
          throw new Problem('collaborator_not_found', `"${username}" is not a collaborator.`)
        }
        await publish(tx, clock.now(), [
          { kind: 'collaborator.removed', actor, repositoryId, data: { username } },
        ])
      })
    },
  }
}
