import { isRepositoryName, repositoryNameForm } from '#access/names.ts'
import type { App } from '#app.ts'
import { toDate, toTable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { toBranchName } from '#repositories/ref-pattern.ts'
import { localPrincipal } from './local.ts'
import type { Terminal } from './terminal.ts'

/** `svc repos list` */
export async function printRepositories(
  { repositories }: App,
  { json }: { json?: boolean },
  { out }: Terminal,
) {
  const all = await repositories.list(localPrincipal, { after: '', limit: undefined })
  if (json) return out(toSafeJson(all))
  const rows = all.map(({ name, createdAt, protectedBranches }) => [
    name,
    toDate(createdAt),
    protectedBranches.join(' '),
  ])
  out(toTable([['NAME', 'CREATED', 'PROTECTED'], ...rows]))
}

/** `svc repos create` */
export async function createRepository(
  { repositories, tokens, changeRepositories }: App,
  name: string,
  { username, defaultBranch, json }: { username: string; defaultBranch?: string; json?: boolean },
  { out }: Terminal,
) {
  if (!isRepositoryName(name))
    throw new Error(`"${name}" is not accepted; a name is ${repositoryNameForm}.`)
  const branch = defaultBranch === undefined ? undefined : toBranchName(defaultBranch)
  if (defaultBranch !== undefined && branch === undefined)
    throw new Error(`"${defaultBranch}" is not a valid branch name.`)
  using _lock = await changeRepositories()
  const owner = await tokens.ownerNamed(username)
  const repository = await repositories.create(owner, { name, defaultBranch: branch })
  out(json ? toSafeJson(repository) : `Created ${name}.\n`)
}

/** `svc repos delete` */
export async function removeRepository(
  { repositories, deletedRepositories, changeRepositories }: App,
  name: string,
  { yes, json }: { yes?: boolean; json?: boolean },
  { out, ask }: Terminal,
) {
  const repository = await repositories.open(localPrincipal, name, 'repo:delete')
  if (ask && !yes) {
    const answer = await ask(
      `This deletes ${name} and everything that belongs to it. Type its name to continue: `,
    )
    if (answer.trim() !== name) throw new Error('Nothing was deleted.')
  }
  using _lock = await changeRepositories()
  const { id } = repository
  const advice = (await deletedRepositories.isRetained(repository))
    ? ` It can be restored: svc deleted-repos restore ${id}`
    : ''
  await repositories.remove(localPrincipal, repository)
  out(json ? toSafeJson({ name, deleted: true }) : `Deleted ${name}.${advice}\n`)
}
