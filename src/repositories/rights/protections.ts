import type { Clock } from '#base/clock.ts'
import { Problem, refusedName } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Actor, Publish } from '#events/events.ts'
import { invalid } from '#http/validation.ts'
import {
  changeRules,
  firstRules,
  type ProtectedKind,
  type Protection,
  toProtection,
  toRuleColumns,
  toRuleValues,
  toStoredPattern,
  type WantedRules,
} from '../protection-rules.ts'
import {
  deleteProtection,
  insertProtection,
  listProtections,
  listProtectionsInForce,
  lockProtection,
  updateProtection,
} from '../protection-store.ts'
import { toBranchPattern, toTagPattern } from '../ref-pattern.ts'
import { holdScope, type NamedScope, placeOf } from '../scopes.ts'

/** Protected branches and tags, of a repository or of all in a namespace: only the owner of the repository and admins may change them, within the rules. */
export type Protections = {
  /** Lists the protections of a scope, oldest first. */
  list: (scope: Pick<NamedScope, 'id'>) => Promise<Protection[]>
  /** Lists those that hold in a repository, its own and those of its namespace, oldest first. */
  listInForce: (repository: Pick<NamedScope, 'id'>) => Promise<Protection[]>
  /** Protects a branch or tag, or all that match a pattern. Rules that are not given stay as they are. Idempotent. */
  put: (actor: Actor, scope: NamedScope, wanted: WantedProtection) => Promise<void>
  /** Removes a protection, given by its text in the list. */
  remove: (
    actor: Actor,
    scope: NamedScope,
    wanted: Pick<WantedProtection, 'kind' | 'text'>,
  ) => Promise<void>
}

type WantedProtection = WantedRules & { kind: ProtectedKind; text: string }

type Dependencies = { db: Database; publish: Publish; clock: Clock }

export function createProtections({ db, publish, clock }: Dependencies): Protections {
  return {
    list: async ({ id }) => (await listProtections(db, id)).map(toProtection),
    listInForce: async ({ id }) => (await listProtectionsInForce(db, id)).map(toProtection),

    async put(actor, scope, { kind, text, ...wanted }) {
      const pattern = parsePattern(kind, text)
      const { repositoryId, inNamespace } = placeOf(scope)
      const place = { scopeId: scope.id, branch: toStoredPattern({ kind, pattern }) }
      await db.transaction().execute(async (tx) => {
        await holdScope(tx, scope)
        const now = clock.now()
        const first = toRuleColumns(changeRules(firstRules, wanted))
        // Inserted before it is read, so that concurrent changes wait for each other.
        const isNew = await insertProtection(tx, { ...place, ...first, createdAt: now })
        const former = await lockProtection(tx, place)
        // It was removed a moment ago, after this change.
        if (!former) return
        const rules = changeRules(toProtection(former), wanted)
        const isChanged =
          !isNew && (await updateProtection(tx, { ...place, ...toRuleColumns(rules) }))
        if (!isNew && !isChanged) return
        const data = { ...namesOf(kind, pattern), ...toRuleValues(rules), ...inNamespace }
        const event = isNew ? 'protection.added' : 'protection.changed'
        await publish(tx, now, [{ kind: event, actor, repositoryId, data }])
      })
    },

    async remove(actor, scope, { kind, text }) {
      const pattern = parsePattern(kind, text)
      const { repositoryId, inNamespace } = placeOf(scope)
      await db.transaction().execute(async (tx) => {
        if (!(await deleteProtection(tx, scope.id, toStoredPattern({ kind, pattern })))) {
          throw new Problem('protection_not_found', `"${pattern}" is not protected.`)
        }
        const data = { ...namesOf(kind, pattern), ...inNamespace }
        await publish(tx, clock.now(), [{ kind: 'protection.removed', actor, repositoryId, data }])
      })
    },
  }
}

function namesOf(kind: ProtectedKind, pattern: string) {
  return kind === 'branch' ? { branch: pattern, tag: null } : { branch: null, tag: pattern }
}

function parsePattern(kind: ProtectedKind, text: string): string {
  const pattern = kind === 'tag' ? toTagPattern(text) : toBranchPattern(text)
  if (pattern !== undefined) return pattern
  const form = `a ${kind} name, or a pattern with "*", of at most 250 characters and without a leading "refs/"`
  const parameter = kind === 'tag' ? 'pattern' : kind
  throw invalid([{ parameter, in: 'path', detail: refusedName(text, form) }])
}
