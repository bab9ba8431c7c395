import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, isAbsolute, join } from 'node:path'
import { codeOf } from '#base/error-code.ts'
import { CommandError, UsageError } from '../terminal/command-errors.ts'

/** A server that the user has logged in to. */
export type KnownServer = {
  name: string
  url: string
  /** Undefined when Git's credential helper holds it. */
  token: string | undefined
}

export type ServerList = { defaultName: string | undefined; servers: KnownServer[] }

/** The file with the servers and their tokens: XDG Base Directory Specification. */
export function serverListPath(environment: NodeJS.ProcessEnv): string | undefined {
  const { XDG_CONFIG_HOME: xdg = '', HOME: home = '' } = environment
  // The specification ignores relative paths.
  if (isAbsolute(xdg)) return join(xdg, 'svc', 'servers.json')
  return isAbsolute(home) ? join(home, '.config', 'svc', 'servers.json') : undefined
}

/** Reads the servers; none if there is no file. */
export async function readServerList(environment: NodeJS.ProcessEnv): Promise<ServerList> {
  const path = serverListPath(environment)
  if (path === undefined) return { defaultName: undefined, servers: [] }
  try {
    return parseList(JSON.parse(await readFile(path, 'utf8')))
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return { defaultName: undefined, servers: [] }
    // Not the message: the parser's quotes the content, which has tokens.
    const reason = code === undefined ? 'it is not a list of servers' : code
    throw new CommandError(
      'failure',
      `${path} cannot be read: ${reason}. Correct or remove it, and log in again.`,
    )
  }
}

/** The servers, of which several can have one address: the default goes first. */
export function defaultFirst({ servers, defaultName }: ServerList): KnownServer[] {
  const rank = ({ name }: KnownServer) => (name === defaultName ? 0 : 1)
  return servers.toSorted((one, other) => rank(one) - rank(other))
}

/** Replaces the file at once, with a mode that hides it from other users. */
export async function writeServerList(
  environment: NodeJS.ProcessEnv,
  { defaultName, servers }: ServerList,
): Promise<void> {
  const path = serverListPath(environment)
  if (path === undefined) {
    throw new CommandError('failure', 'Set HOME or XDG_CONFIG_HOME: the login is kept there.')
  }
  const content = { default: defaultName ?? null, servers }
  const temporary = `${path}.${randomBytes(6).toString('hex')}`
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    const options = { mode: 0o600, flag: 'wx', flush: true } as const
    await writeFile(temporary, `${JSON.stringify(content, null, 2)}\n`, options)
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {})
    throw new CommandError('failure', `${path} cannot be written: ${codeOf(error) ?? 'unknown'}.`, {
      cause: error,
    })
  }
}

function parseList(value: unknown): ServerList {
  const { default: defaultName, servers } = value as { default?: unknown; servers?: unknown }
  if (!Array.isArray(servers)) throw new TypeError('no servers')
  return {
    defaultName: typeof defaultName === 'string' ? defaultName : undefined,
    servers: servers.map((server: Record<string, unknown>) => {
      const { name, url, token } = server
      if (typeof name !== 'string' || typeof url !== 'string') throw new TypeError('not a server')
      return { name, url, token: typeof token === 'string' ? token : undefined }
    }),
  }
}

/** Parses the address of a server: without a path at the end, credentials, query or fragment. Adds `https://`. */
export function parseServerAddress(text: string, source = 'The address'): string {
  const full = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `https://${text}`
  const url = URL.parse(full)
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.hostname === '') {
    throw new UsageError(`${source} is not an http or https URL, such as https://git.example.com.`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError(
      `${source} contains a user name or a password. Leave it out: svc login asks for the token.`,
    )
  }
  if (url.search !== '' || url.hash !== '') {
    throw new UsageError(`${source} contains a query or a fragment; give it up to the path.`)
  }
  return `${url.origin}${url.pathname.replace(/\/$/, '')}`
}

/** Whether requests to this address stay on the machine. */
export function isLoopback(url: string): boolean {
  const { hostname } = new URL(url)
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname)
}
