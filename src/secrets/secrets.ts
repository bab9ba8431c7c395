import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import type { PageRequest } from '#base/list-all.ts'
import { Problem } from '#base/problem.ts'
import type { Sensitive } from '#base/sensitive.ts'
import type { Database } from '#database/database.ts'
import type { SecretRow } from '#database/schema.ts'
import type { Actor, Publish } from '#events/events.ts'
import { invalid } from '#http/validation.ts'
import { holdScope, type NamedScope, nameField, placeOf } from '#repositories/scopes.ts'
import { faultOfSecretName, isSecretName } from './secret-names.ts'
import {
  countSecrets,
  deleteSecret,
  listSealedOf,
  listSecrets,
  type SecretMetadata,
  upsertSecret,
} from './secret-store.ts'
import type { Vault } from './vault/vault.ts'

type NameField = ReturnType<typeof nameField>

type ListedSecret = SecretMetadata & NameField

/** The secrets of repositories and namespaces: workflow steps can use their values, which cannot be read back. */
export type Secrets = {
  /** Lists the secrets of a scope after an id, oldest first, without values. */
  list: (scope: NamedScope, page: PageRequest) => Promise<ListedSecret[]>
  /**
   * Creates a secret, or replaces its value. Throws `invalid_request`, `encryption_key_missing`,
   * `too_many_secrets`, and the Problem of a scope that is deleted meanwhile.
   */
  put: (
    actor: Actor,
    scope: NamedScope,
    name: string,
    value: Sensitive<string>,
  ) => Promise<{ name: string; message: string } & NameField>
  /** Deletes a secret. Throws `secret_not_found`. */
  remove: (actor: Actor, scope: NamedScope, name: string) => Promise<void>
  /**
   * Opens the secrets of a repository and of its namespace by name, only for runs: no route may return them. Those of the
   * repository come before those of the namespace. Throws `encryption_key_missing` and `secret_unreadable`.
   */
  open: OpenSecrets
}

export type OpenSecrets = (
  repositoryId: string,
  selection?: {
    /** The names of some; all by default. */
    names?: readonly string[] | undefined
    /** Whether those of the namespace are left out. */
    isOwnOnly?: boolean
  },
) => Promise<Record<string, string>>

/** Maximum number of secrets of a repository or a namespace. */
export const maxSecrets = 100
export const valueMaxBytes = 48 * 1024

export const valueForm = `a text of 1 byte to ${valueMaxBytes / 1024} KiB in UTF-8, without NUL characters`

type Dependencies = { db: Database; publish: Publish; clock: Clock; vault: () => Promise<Vault> }

export function createSecrets({ db, publish, clock, vault }: Dependencies): Secrets {
  return {
    async list(scope, page) {
      const rows = await listSecrets(db, scope.id, page)
      return rows.map(({ id, name, ...times }) => ({ id, name, ...nameField(scope), ...times }))
    },

    async put(actor, scope, name, value) {
      assertName(name)
      assertValue(value)
      const { seal, keyIds } = await vault()
      if (keyIds.length === 0) throw keyMissing()
      const now = clock.now()
      const place = { scopeId: scope.id, name }
      const { repositoryId, inNamespace } = placeOf(scope)
      const row = { id: newId(), ...place, ...seal(value, place), createdAt: now, updatedAt: now }
      await db.transaction().execute(async (tx) => {
        await holdScope(tx, scope)
        await upsertSecret(tx, row)
        const data = { name, ...inNamespace }
        await publish(tx, now, [{ kind: 'secret.saved', actor, repositoryId, data }])
        // Counted last: publishing serializes concurrent additions, so their rows are visible now.
        if ((await countSecrets(tx, scope.id)) > maxSecrets) throw tooMany(scope)
      })
      const message = `The secret ${name} is saved; runs that start from now on get this value.`
      return { name, ...nameField(scope), message }
    },

    async remove(actor, scope, name) {
      const { repositoryId, inNamespace } = placeOf(scope)
      await db.transaction().execute(async (tx) => {
        if (!isSecretName(name) || !(await deleteSecret(tx, scope.id, name))) throw notFound(name)
        const data = { name, ...inNamespace }
        await publish(tx, clock.now(), [{ kind: 'secret.deleted', actor, repositoryId, data }])
      })
    },

    async open(repositoryId, { names, isOwnOnly = false } = {}) {
      const all = await listSealedOf(db, repositoryId)
      const rows = isOwnOnly ? all.filter(({ scopeId }) => scopeId === repositoryId) : all
      const byName = new Map(rows.map((row) => [row.name, row]))
      const selected = [...byName.values()].filter(({ name }) => names?.includes(name) ?? true)
      if (selected.length === 0) return {}
      const keys = await vault()
      if (keys.keyIds.length === 0) throw keyMissing()
      return Object.fromEntries(selected.map((row) => [row.name, openSecret(keys, row).reveal()]))
    },
  }
}

function openSecret(vault: Vault, row: SecretRow): Sensitive<string> {
  const opened = vault.open(row.sealedValue, row)
  if ('value' in opened) return opened.value
  const detail = `The secret ${row.name} cannot be opened: ${opened.fault}. Set it again.`
  throw new Problem('secret_unreadable', detail)
}

function assertName(name: string): void {
  const detail = faultOfSecretName(name)
  if (detail !== undefined) throw invalid([{ parameter: 'secretName', in: 'path', detail }])
}

function assertValue(value: Sensitive<string>): void {
  const text = value.reveal()
  const bytes = Buffer.byteLength(text)
  // A lone surrogate has no UTF-8 encoding, and an environment variable cannot contain NUL.
  const isFine = bytes > 0 && bytes <= valueMaxBytes && text.isWellFormed() && !text.includes('\0')
  if (!isFine) throw invalid([{ pointer: '/value', detail: `must be ${valueForm}.` }])
}

export function keyMissing(): Problem {
  return new Problem(
    'encryption_key_missing',
    'The server has no key to encrypt secrets with. Its administrator sets SVC_ENCRYPTION_KEY, or puts ' +
      'encryption.key back into the data directory, and starts it again.',
  )
}

function tooMany({ name }: NamedScope): Problem {
  return new Problem(
    'too_many_secrets',
    `"${name}" has ${maxSecrets} secrets, which is the maximum; delete one first.`,
  )
}

function notFound(name: string): Problem {
  return new Problem('secret_not_found', `There is no secret "${name}".`)
}
