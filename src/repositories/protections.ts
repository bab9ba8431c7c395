import type { Clock } from '../base/clock.ts'
import { Problem } from '../base/problem.ts'
import type { Database } from '../database/database.ts'
import type { Actor, Publish } from '../events/events.ts'
import { invalid } from '../http/validation.ts'
import { toBranchPattern } from './branch-pattern.ts'
import {
  type OwnerRule,
  type ProtectedKind,
  type Protection,
  toProtection,
  toStoredPattern,
} from './protection-rules.ts'
import {
  deleteProtection,
  insertProtection,
  listProtections,
  updateProtection,
} from './protection-store.ts'
import type { Repository } from './repositories.ts'

/** Protected branches and tags: only the owner of the repository and admins may change them, within the rules. */
export type Protections = {
  /** Lists the protections of a repository, oldest first. */
  list: (repository: Repository) => Promise<Protection[]>
  /** Protects a branch or tag, or all that match a pattern. Rules that are not given stay as they are. Idempotent. */
  put: (actor: Actor, repository: Repository, wanted: WantedProtection) => Promise<void>
  /** Removes a protection, given by its text in the list. */
  remove: (
    actor: Actor,
    repository: Repository,
    wanted: Pick<WantedProtection, 'kind' | 'text'>,
  ) => Promise<void>
}

type WantedProtection = {
  kind: ProtectedKind
  text: string
  owners?: OwnerRule | undefined
  /** Normalized paths of workflow files. */
  requires?: string[] | undefined
}

type Dependencies = { db: Database; publish: Publish; clock: Clock }

export function createProtections({ db, publish, clock }: Dependencies): Protections {
  const list = async (repository: Repository) =>
    (await listProtections(db, repository.id)).map(toProtection)

  return {
    list,

    async put(actor, repository, { kind, text, ...wanted }) {
      const pattern = parsePattern(kind, text)
      const repositoryId = repository.id
      await db.transaction().execute(async (tx) => {
        const all = (await listProtections(tx, repositoryId)).map(toProtection)
        const former = all.find((one) => one.kind === kind && one.pattern === pattern)
        const owners = wanted.owners ?? former?.owners ?? 'any'
        const requires = wanted.requires ?? former?.requires ?? []
        const branch = toStoredPattern({ kind, pattern })
        const row = { repositoryId, branch, owners, requires: JSON.stringify(requires) }
        const isNew = await insertProtection(tx, { ...row, createdAt: clock.now() })
        if (!isNew && !(await updateProtection(tx, row))) return
        const data = { ...namesOf(kind, pattern), owners, requires }
        const event = isNew ? 'protection.added' : 'protection.changed'
        await publish(tx, clock.now(), [{ kind: event, actor, repositoryId, data }])
      })
    },

    async remove(actor, repository, { kind, text }) {
      const pattern = parsePattern(kind, text)
      const repositoryId = repository.id
      await db.transaction().execute(async (tx) => {
        if (!(await deleteProtection(tx, repositoryId, toStoredPattern({ kind, pattern })))) {
          throw new Problem('protection_not_found', `"${pattern}" is not protected.`)
        }
        const data = namesOf(kind, pattern)
        await publish(tx, clock.now(), [{ kind: 'protection.removed', actor, repositoryId, data }])
      })
    },
  }
}

function namesOf(kind: ProtectedKind, pattern: string) {
  return kind === 'branch' ? { branch: pattern, tag: null } : { branch: null, tag: pattern }
}

function parsePattern(kind: ProtectedKind, text: string): string {
  const pattern = toBranchPattern(kind === 'tag' ? text.replace(/^refs\/tags\//, '') : text)
  if (pattern !== undefined) return pattern
  const detail = `must be a ${kind} name, or a pattern with "*", of at most 250 characters and without a leading "refs/".`
  throw invalid([{ pointer: kind, detail }])
}
