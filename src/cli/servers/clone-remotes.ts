import { parseGitAddress } from '#base/git-address.ts'
import type { KnownServer } from './server-list.ts'
import type { UserGit } from './user-git.ts'

type CloneRepository = { server: KnownServer; repository: string }

/** Finds the repositories of known servers among the remotes of the clone; that of `origin` comes first. */
export async function findCloneRepositories(
  git: UserGit,
  servers: KnownServer[],
): Promise<CloneRepository[]> {
  const addresses = (await readRemotes(git)).map(({ address }) => address)
  return findRepositories(addresses, servers)
}

/** The name of the remote of the clone that leads to a repository, `origin` if it does; undefined for none. */
export async function findRemote(
  git: UserGit,
  { repository, serverUrl }: { repository: string; serverUrl: string },
): Promise<string | undefined> {
  const remotes = await readRemotes(git)
  const found = remotes.find(({ address }) => repositoryOf(address, serverUrl) === repository)
  return found?.key.slice('remote.'.length, -'.url'.length)
}

/** The settings with the addresses of the remotes of the clone; that of `origin` comes first. */
async function readRemotes(git: UserGit): Promise<{ key: string; address: string }[]> {
  const args = ['config', '--null', '--get-regexp', '^remote\\..*\\.url$']
  const { code, out } = await git.run(args).catch(() => ({ code: 1, out: '' }))
  if (code !== 0) return []
  const remotes = out.split('\0').map((entry) => {
    const [key = '', address = ''] = entry.split('\n')
    return { key, address }
  })
  return remotes.sort((one, other) => rankOf(one.key) - rankOf(other.key))
}

/** Finds the repositories of known servers that addresses name. */
export function findRepositories(
  addresses: readonly string[],
  servers: KnownServer[],
): CloneRepository[] {
  return addresses.flatMap((address) => {
    for (const server of servers) {
      const repository = repositoryOf(address, server.url)
      if (repository !== undefined) return [{ server, repository }]
    }
    return []
  })
}

/** The name of the repository that an address names, if it is one of the server, for Git or in a browser. */
export function repositoryOf(address: string, serverUrl: string): string | undefined {
  const url = parseGitAddress(address)
  const server = new URL(serverUrl)
  if (!url) return undefined
  const isSsh = isSshAddress(address)
  if (isSsh ? url.hostname !== server.hostname : url.origin !== server.origin) return undefined
  const prefix = isSsh ? '/' : `${server.pathname.replace(/\/$/, '')}/`
  if (!url.pathname.startsWith(prefix)) return undefined
  const place = url.pathname.slice(prefix.length)
  const [, name] =
    /^(?:repos\/|r\/)?((?:[A-Za-z0-9][A-Za-z0-9._-]*\/)?[A-Za-z0-9][A-Za-z0-9._-]*?)(?:\.git)?\/?$/.exec(
      place,
    ) ?? []
  return name
}

export function isSshAddress(address: string): boolean {
  return parseGitAddress(address)?.protocol === 'ssh:'
}

function rankOf(key: string): number {
  return key === 'remote.origin.url' ? 0 : 1
}
