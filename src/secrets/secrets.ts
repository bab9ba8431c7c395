import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import type { PageRequest } from '#base/list-all.ts'
import { Problem } from '#base/problem.ts'
import type { Sensitive } from '#base/sensitive.ts'
import type { Database } from '#database/database.ts'
import type { SecretRow } from '#database/schema.ts'
import type { Actor, Publish } from '#events/events.ts'
import { invalid } from '#http/validation.ts'
import type { Repository } from '#repositories/repositories.ts'
import { asGone, repositoryGone } from '#repositories/repository-errors.ts'
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

type ListedSecret = {
  id: string
  name: string
  repoName: string
  createdAt: number
  updatedAt: number
}

/** The secrets of repositories: workflow steps can use their values, which cannot be read back. */
export type Secrets = {
  /** Lists the secrets of a repository after an id, oldest first, without values. */
  list: (repository: Repository, page: PageRequest) => Promise<ListedSecret[]>
  /**
   * Creates a secret, or replaces its value. Throws `invalid_request`, `encryption_key_missing`,
   * `too_many_secrets`, and `repository_not_found` when the repository is deleted meanwhile.
   */
  put: (
    actor: Actor,
    repository: Repository,
    name: string,
    value: Sensitive<string>,
  ) => Promise<{ name: string; repoName: string; message: string }>
  /** Deletes a secret. Throws `secret_not_found`. */
  remove: (actor: Actor, repository: Repository, name: string) => Promise<void>
  /**
   * Opens the secrets of a repository by name, only for runs: no route may return them. `names` selects some of them.
   * Throws `encryption_key_missing` and `secret_unreadable`.
   */
  open: (repositoryId: string, names?: readonly string[]) => Promise<Record<string, string>>
}

/** Maximum number of secrets of a repository. */
export const maxSecrets = 100
export const valueMaxBytes = 48 * 1024

export const valueForm = `a text of 1 byte to ${valueMaxBytes / 1024} KiB in UTF-8, without NUL characters`

type Dependencies = { db: Database; publish: Publish; clock: Clock; vault: () => Promise<Vault> }

export function createSecrets({ db, publish, clock, vault }: Dependencies): Secrets {
  return {
    async list(repository, page) {
      const rows = await listSecrets(db, repository.id, page)
      return rows.map((row) => toSecret(row, repository))
    },

    async put(actor, repository, name, value) {
      assertName(name)
      assertValue(value)
      const { seal, keyIds } = await vault()
      if (keyIds.length === 0) throw keyMissing()
      const [repositoryId, now] = [repository.id, clock.now()]
      const place = { repositoryId, name }
      const row = { id: newId(), ...place, ...seal(value, place), createdAt: now, updatedAt: now }
      await db.transaction().execute(async (tx) => {
        await upsertSecret(tx, row).catch(asGone(() => repositoryGone(repository)))
        await publish(tx, now, [{ kind: 'secret.saved', actor, repositoryId, data: { name } }])
        // Counted last: publishing serializes concurrent additions, so their rows are visible now.
        if ((await countSecrets(tx, repositoryId)) > maxSecrets) throw tooMany(repository)
      })
      const message = `The secret ${name} is saved; runs that start from now on get this value.`
      return { name, repoName: repository.name, message }
    },

    async remove(actor, repository, name) {
      const repositoryId = repository.id
      await db.transaction().execute(async (tx) => {
        if (!isSecretName(name) || !(await deleteSecret(tx, repositoryId, name)))
          throw notFound(name)
        await publish(tx, clock.now(), [
          { kind: 'secret.deleted', actor, repositoryId, data: { name } },
        ])
      })
    },

    async open(repositoryId, names) {
      const rows = await listSealedOf(db, repositoryId)
      const selected = names ? rows.filter(({ name }) => names.includes(name)) : rows
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

function toSecret({ id, name, createdAt, updatedAt }: SecretMetadata, repository: Repository) {
  return { id, name, repoName: repository.name, createdAt, updatedAt }
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

function tooMany({ name }: Repository): Problem {
  return new Problem(
    'too_many_secrets',
    `"${name}" has ${maxSecrets} secrets, which is the maximum; delete one first.`,
  )
}

function notFound(name: string): Problem {
  return new Problem('secret_not_found', `There is no secret "${name}".`)
}
