import type { App } from '#app.ts'
import { Sensitive } from '#base/sensitive.ts'
import { isTokenString } from '#base/token-string.ts'
import { CommandError, UsageError } from '../terminal/command-errors.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { findCloneRepositories, findRepositories } from './clone-remotes.ts'
import { readCredential } from './credential-store.ts'
import { createHttpClient, type HttpClient } from './http-client.ts'
import {
  defaultFirst,
  type KnownServer,
  parseServerAddress,
  readServerList,
} from './server-list.ts'
import { createUserGit, type UserGit } from './user-git.ts'

/** What client commands use of the process. */
export type ClientContext = {
  version: string
  terminal: Terminal
  environment: NodeJS.ProcessEnv
  /** The current directory. */
  folder: string
  /** The path of this program, for Git's credential helper. */
  launcher: string
  /** The width of standard output; undefined if it is not a terminal. */
  columns: number | undefined
  setExitCode: (code: number) => void
  /** Runs a command with the data directory, and closes it afterwards. */
  withApp: (run: (app: App) => Promise<void>) => Promise<void>
}

/** Commander's values of the options of a command. */
export type OptionValues = Record<string, string | string[] | boolean | undefined>

const defaultTimeoutSeconds = 60
const maxTimeoutSeconds = 86_400

type Connection = { git: UserGit; chosen: ChosenServer | undefined; client: HttpClient | undefined }

/** Chooses the server of a command, also by an address of a repository; none for the data directory. */
export async function connectClient(
  context: Pick<ClientContext, 'environment' | 'folder' | 'version'>,
  options: OptionValues,
  address?: string,
): Promise<Connection> {
  const { environment, folder, version } = context
  const timeoutMs = toTimeout(options.timeout)
  const git = createUserGit(environment, folder)
  const name = typeof options.server === 'string' ? options.server : undefined
  const chosen = await chooseServer({ environment, git, name, address })
  if (!chosen) return { git, chosen, client: undefined }
  const token = toHeaderValue(await chosen.readToken(), chosen.url)
  return { git, chosen, client: createHttpClient({ url: chosen.url, token, timeoutMs, version }) }
}

/** The value of `--timeout`, in milliseconds. */
export function toTimeout(text: OptionValues[string]): number {
  if (text === undefined) return defaultTimeoutSeconds * 1000
  const seconds = Number(text)
  if (seconds > 0 && seconds <= maxTimeoutSeconds) return seconds * 1000
  throw new UsageError(`--timeout takes seconds, more than 0 and up to ${maxTimeoutSeconds}.`)
}

function toHeaderValue(token: string | undefined, url: string): string {
  if (token === undefined) {
    throw new CommandError(
      'unauthorized',
      `There is no token for ${url}; log in with svc login ${url}, or set SVC_URL and SVC_TOKEN.`,
    )
  }
  assertToken(token)
  return token
}

/** A token is sent in a header, and passed to Git in a line. The error does not have its text. */
export function assertToken(token: string): void {
  if (!isSendable(token)) throw new CommandError('unauthorized', notToken)
}

/** Whether a token can be sent in a header. */
export function isSendable(token: string): boolean {
  return /^[\x21-\x7e]{1,1000}$/.test(token)
}

export const notToken = 'This is not a token: it is empty, or has other characters.'

/** The name that `--server` takes for the data directory. */
export const localName = 'local'

/** A server that a command is for, with the name of the repository of the clone, if it is one of this server. */
type ChosenServer = {
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
async function chooseServer({
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

/** The server of a command, and the token for it. */
export type ServerAccess = { url: URL; token: Sensitive<string> }

/**
 * The server of a command, chosen as by the commands for servers; `name` is one that the user is logged in to. Throws a
 * UsageError.
 */
export async function toServer(
  { environment, folder }: Pick<ClientContext, 'environment' | 'folder'>,
  name: string | undefined,
): Promise<ServerAccess> {
  const git = createUserGit(environment, folder)
  const chosen = await chooseServer({ environment, git, name })
  const token = await chosen?.readToken()
  if (!chosen || token === undefined) {
    throw new UsageError(
      'Log in with svc login URL, or set SVC_URL to the address of the service and SVC_TOKEN to a token.',
    )
  }
  if (!isTokenString(token)) {
    throw new UsageError('The token is mistyped: a token begins with svc_ and has 40 characters.')
  }
  return { url: new URL(chosen.url), token: new Sensitive(token) }
}
