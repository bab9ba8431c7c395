import type { KnownServer } from './server-list.ts'
import type { UserGit } from './user-git.ts'

export type CloneRepository<Server = KnownServer> = { server: Server; repository: string }

/** Finds the repositories of known servers among the remotes of the clone; that of `origin` comes first. */
export async function findCloneRepositories(
  git: UserGit,
  servers: KnownServer[],
): Promise<CloneRepository[]> {
  const args = ['config', '--null', '--get-regexp', '^remote\\..*\\.url$']
  const { code, out } = await git.run(args).catch(() => ({ code: 1, out: '' }))
  if (code !== 0) return []
  const remotes = out.split('\0').map((entry) => {
    const [key = '', address = ''] = entry.split('\n')
    return { key, address }
  })
  remotes.sort((one, other) => rankOf(one.key) - rankOf(other.key))
  return remotes.flatMap(({ address }) => {
    for (const server of servers) {
      const repository = repositoryOf(address, server.url)
      if (repository !== undefined) return [{ server, repository }]
    }
    return []
  })
}

/** The name of the repository that a remote names, if it is one of the server. */
function repositoryOf(address: string, serverUrl: string): string | undefined {
  const remote = URL.parse(address)
  const server = new URL(serverUrl)
  if (!remote) return undefined
  const isSsh = remote.protocol === 'ssh:'
  if (isSsh ? remote.hostname !== server.hostname : remote.origin !== server.origin)
    return undefined
  const prefix = isSsh ? '/' : `${server.pathname.replace(/\/$/, '')}/repos/`
  if (!remote.pathname.startsWith(prefix)) return undefined
  const name = remote.pathname
    .slice(prefix.length)
    .replace(/\/$/, '')
    .replace(/\.git$/, '')
  return /^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name) ? name : undefined
}

function rankOf(key: string): number {
  return key === 'remote.origin.url' ? 0 : 1
}
