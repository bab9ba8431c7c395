import { UsageError } from '../commands/usage-error.ts'
import { findCloneRepositories, findRepositories } from './clone-remotes.ts'
import { readCredential } from './credential-store.ts'
import { parseServerAddress } from './server-address.ts'
import { defaultFirst, type KnownServer, readServerList } from './server-list.ts'
import type { UserGit } from './user-git.ts'

/** The name that `--server` takes for the data directory. */
export const localName = 'local'

/** A server that a command is for, with the name of the repository of the clone, if it is one of this server. */
export type ChosenServer = {
  url: string
  name: string | undefined
  repository: string | undefined
  readToken: () => Promise<string | undefined>
}

type Options = {
  environment: NodeJS.ProcessEnv
  git: UserGit
  name: string | undefined
  /** An address of a repository. */
  address?: string | undefined
}

/**
 * Chooses the server: `--server`, SVC_URL, the address or the remote of the clone, then the default server unless
 * SVC_DATA_DIR is set. Undefined is the data directory.
 */
export async function chooseServer({
  environment,
  git,
  name,
  address,
}: Options): Promise<ChosenServer | undefined> {
  const { SVC_URL: url, SVC_DATA_DIR: dataDir } = environment
  if (name === localName) return undefined
  const list = await readServerList(environment)
  if (name === undefined && !url && list.servers.length === 0) return undefined
  const fromEnvironment = name === undefined && url ? ofEnvironment(url, list.servers) : undefined
  const named = name === undefined ? fromEnvironment : findNamed(list.servers, name)
  const servers = named ? [named] : defaultFirst(list)
  const repositories =
    address === undefined
      ? await findCloneRepositories(git, servers)
      : findRepositories([address], servers)
  const [found] = repositories
  const fallback = dataDir ? undefined : list.servers.find((one) => one.name === list.defaultName)
  const server = named ?? found?.server ?? fallback
  if (!server) return undefined
  return {
    url: server.url,
    name: fromEnvironment && server.name === '' ? undefined : server.name,
    repository: repositories.find((one) => one.server === server)?.repository,
    readToken: () => readToken(environment, git, { server, isNamed: name !== undefined }),
  }
}

/** The token of a server: SVC_TOKEN if SVC_URL names it, else the one of the login. */
export async function readToken(
  { SVC_URL: url, SVC_TOKEN: token }: NodeJS.ProcessEnv,
  git: UserGit,
  { server, isNamed }: { server: KnownServer; isNamed: boolean },
): Promise<string | undefined> {
  // SVC_TOKEN alone could be for any server: only SVC_URL says which one gets it.
  if (!isNamed && token && url && parseServerAddress(url, 'SVC_URL') === server.url) return token
  if (server.name === '') return undefined
  return server.token ?? (await readCredential(git, server))
}

function findNamed(servers: KnownServer[], name: string): KnownServer {
  const found = servers.find((one) => one.name === name || one.url === name)
  if (found) return found
  throw new UsageError(
    `You are not logged in to a server "${name}"; svc servers lists yours, svc login adds one.`,
  )
}

function ofEnvironment(url: string, servers: KnownServer[]): KnownServer {
  const address = parseServerAddress(url, 'SVC_URL')
  const known = servers.find((one) => one.url === address)
  return known ?? { name: '', url: address, token: undefined }
}
