import type { Clock } from '../base/clock.ts'
import { Problem } from '../base/problem.ts'
import type { Database } from '../database/database.ts'
import type { Actor, Publish } from '../events/events.ts'
import { invalid } from '../http/validation.ts'
import { matchesPattern, toBranchPattern } from './branch-pattern.ts'
import { deleteProtection, insertProtection, listProtections } from './protection-store.ts'
import type { Repository } from './repositories.ts'

export type Protections = {
  list: (repository: Repository) => Promise<{ branches: string[] }>
  /** Protects a branch, or all branches that match a pattern. Idempotent. */
  add: (actor: Actor, repository: Repository, text: string) => Promise<{ branches: string[] }>
  /** Removes a protection, given by its text in the list. */
  remove: (actor: Actor, repository: Repository, text: string) => Promise<{ branches: string[] }>
  /** Returns a function that finds the rule which protects a branch, if any. */
  ruleFor: (repository: Repository) => Promise<(branch: string) => string | undefined>
}

/** Protected branches: only the owner of the repository and admins may change them. */
type Dependencies = { db: Database; publish: Publish; clock: Clock }

export function createProtections({ db, publish, clock }: Dependencies): Protections {
  async function list(repository: Repository) {
    return { branches: await listProtections(db, repository.id) }
  }

  return {
    list,

    async add(actor, repository, text) {
      const branch = parseBranch(text)
      const repositoryId = repository.id
      await db.transaction().execute(async (tx) => {
        if (!(await insertProtection(tx, { repositoryId, branch, createdAt: clock.now() }))) return
        await publish(tx, clock.now(), [
          { kind: 'protection.added', actor, repositoryId, data: { branch } },
        ])
      })
      return list(repository)
    },

    async remove(actor, repository, text) {
      const branch = parseBranch(text)
      const repositoryId = repository.id
      await db.transaction().execute(async (tx) => {
        if (!(await deleteProtection(tx, repositoryId, branch))) {
          throw new Problem('protection_not_found', `"${branch}" is not protected.`)
        }
        await publish(tx, clock.now(), [
          { kind: 'protection.removed', actor, repositoryId, data: { branch } },
        ])
      })
      return list(repository)
    },

    async ruleFor(repository) {
      const patterns = await listProtections(db, repository.id)
      return (branch) => patterns.find((pattern) => matchesPattern(branch, pattern))
    },
  }
}

function parseBranch(text: string): string {
  const branch = toBranchPattern(text)
  if (branch !== undefined) return branch
  const detail =
    'must be a branch name, or a pattern with "*", of at most 250 characters and without a leading "refs/".'
  throw invalid([{ pointer: 'branch', detail }])
}
