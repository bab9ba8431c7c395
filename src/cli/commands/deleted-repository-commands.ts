import { isRepositoryName, repositoryNameForm } from '#access/names.ts'
import type { App } from '#app.ts'
import { toDate, toTable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { localPrincipal } from './local.ts'
import type { Terminal } from './terminal.ts'

/** `svc deleted-repos list` */
export async function listDeletedRepositories(
  { deletedRepositories }: App,
  { json }: { json?: boolean },
  { out }: Terminal,
) {
  const all = await deletedRepositories.list(localPrincipal, { after: '', limit: undefined })
  if (json) return out(toSafeJson(all))
  const rows = all.map(({ id, name, ownerUsername, deletedAt, purgeAt }) => [
    id,
    name,
    ownerUsername,
    toDate(deletedAt),
    toDate(purgeAt),
  ])
  out(toTable([['ID', 'NAME', 'OWNER', 'DELETED', 'KEPT UNTIL'], ...rows]))
}

/** `svc deleted-repos restore` */
export async function restoreRepository(
  { deletedRepositories, changeRepositories }: App,
  id: string,
  { name, json }: { name?: string; json?: boolean },
  { out }: Terminal,
) {
  if (name !== undefined && !isRepositoryName(name))
    throw new Error(`"${name}" is not accepted; a name is ${repositoryNameForm}.`)
  using _lock = await changeRepositories()
  const deleted = await deletedRepositories.find(localPrincipal, id, 'repo:delete')
  const restored = await deletedRepositories.restore(localPrincipal, deleted, name)
  out(json ? toSafeJson(restored) : `Restored ${restored.name}.\n`)
}

/** `svc deleted-repos purge` */
export async function purgeRepository(
  { deletedRepositories, changeRepositories }: App,
  id: string,
  { yes, json }: { yes?: boolean; json?: boolean },
  { out, ask }: Terminal,
) {
  const deleted = await deletedRepositories.find(localPrincipal, id, 'repo:delete')
  const { name } = deleted
  if (ask && !yes) {
    const answer = await ask(`This removes ${name} for good. Type its name to continue: `)
    if (answer.trim() !== name) throw new Error('Nothing was removed.')
  }
  using _lock = await changeRepositories()
  await deletedRepositories.purge(localPrincipal, deleted)
  out(json ? toSafeJson({ id, name, purged: true }) : `Purged ${name}.\n`)
}
