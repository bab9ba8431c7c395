import { readEncryptionKeys } from '#config/encryption-keys.ts'
import { apiPathOfScope } from '#repositories/scopes.ts'
import { describeUnknown, findUnknownKeys } from '#secrets/key-check.ts'
import {
  listSealed,
  type SealedRow,
  type SealedTable,
  sealedTables,
} from '#secrets/sealed-store.ts'
import { createVault, type Vault } from '#secrets/vault/vault.ts'
import type { Check } from '../check.ts'
import type { DoctorContext } from '../context.ts'
import { readVersion } from '../doctor-store.ts'
import { countOrNo, type Finding, fault, firstOf, ok, orOk, SkipError } from '../finding.ts'
import { keySettings } from './keys-check.ts'

const pageSize = 50

/** Checks that every secret can be decrypted. */
export const secretsCheck: Check = {
  id: 'secrets',
  title: 'decryption of secrets',
  isLong: true,
  async run(context) {
    const version = (await context.read(readVersion)) ?? 0
    const tables = sealedTables
      .filter((sealed) => sealed.version <= version)
      .map(({ table }) => table)
    if (tables.length === 0) return ok('There are none.')
    const { keys } = await readEncryptionKeys(keySettings(context)).catch((error) => {
      throw new SkipError('The encryption key cannot be read.', { cause: error })
    })
    const vault = createVault(keys)
    const unknown = await context.read((db) => findUnknownKeys(db, vault, tables))
    if (unknown.length > 0) {
      const description = describeUnknown(unknown)
      return fault(description.fault, description.fix)
    }
    const { count, damaged } = await openAll(context, vault, tables)
    return orOk(firstOf(damaged), `${countOrNo(count, 'secret')}, all of which can be decrypted.`)
  },
}

async function openAll(context: DoctorContext, vault: Vault, tables: SealedTable[]) {
  const damaged: Finding[] = []
  let count = 0
  for (const table of tables) {
    for (let after: string | undefined = ''; after !== undefined; ) {
      const page = { after, limit: pageSize }
      const rows: SealedRow[] = await context.read((db) => listSealed(db, table, page))
      for (const row of rows) {
        const opened = vault.open(row.sealedValue, row)
        if ('fault' in opened) damaged.push(unreadable(row, opened.fault))
      }
      count += rows.length
      after = rows.length < pageSize ? undefined : rows.at(-1)?.id
    }
  }
  return { count, damaged }
}

function unreadable({ webhook, scopeKind, scopeName, name }: SealedRow, reason: string): Finding {
  if (!webhook) {
    return fault(
      `The secret ${name} of ${scopeName} cannot be decrypted: ${reason}.`,
      `Set it again: svc secrets set ${scopeKind === 'namespace' ? '--namespace ' : ''}${scopeName} ${name}`,
    )
  }
  return fault(
    `A signing secret of the webhook ${webhook.id} of ${scopeName} cannot be decrypted: ${reason}.`,
    `Set a new one: send it as "secret" by PATCH to ${apiPathOfScope(scopeKind, scopeName)}/webhooks/${webhook.id}`,
  )
}
