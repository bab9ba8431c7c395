import { readEncryptionKeys } from '../config/encryption-keys.ts'
import { describeUnknown, findUnknownKeys, unknownFix } from '../secrets/key-check.ts'
import { listSealed } from '../secrets/secret-store.ts'
import { createVault, type Vault } from '../vault/vault.ts'
import { readVersion } from './doctor-store.ts'
import { type Check, counted, type Finding, fault, firstOf, ok, orOk, Skip } from './finding.ts'
import { keySettings } from './keys-check.ts'
import type { Site } from './site.ts'

const rowsAtOnce = 50
/** The first version of the database that has secrets. */
const secretsVersion = 9

/** Whether every secret can be opened. */
export const secretsCheck: Check = {
  id: 'secrets',
  title: 'whether secrets can be opened',
  isLong: true,
  async run(site) {
    const version = (await site.read(readVersion)) ?? 0
    if (version < secretsVersion) return [ok('There are none.')]
    const { keys } = await readEncryptionKeys(keySettings(site)).catch((error) => {
      throw new Skip('The encryption key cannot be read.', { cause: error })
    })
    const vault = createVault(keys)
    const unknown = await site.read((db) => findUnknownKeys(db, vault))
    if (unknown.length > 0) return [fault(describeUnknown(unknown), unknownFix)]
    const { count, damaged } = await openAll(site, vault)
    return orOk(firstOf(damaged), `${counted(count, 'secret')}, all of which can be opened.`)
  },
}

async function openAll(site: Site, vault: Vault) {
  const damaged: Finding[] = []
  let count = 0
  for (let after = ''; ; ) {
    const rows = await site.read((db) => listSealed(db, { after, limit: rowsAtOnce }))
    for (const row of rows) {
      const opened = vault.open(row.sealedValue, row)
      if ('value' in opened) continue
      const { repositoryName, name } = row
      damaged.push(
        fault(
          `The secret ${name} of ${repositoryName} cannot be opened: ${opened.fault}.`,
          `Set it again: svc secrets set ${repositoryName} ${name}`,
        ),
      )
    }
    count += rows.length
    const last = rows.at(-1)
    if (!last || rows.length < rowsAtOnce) return { count, damaged }
    after = last.id
  }
}
