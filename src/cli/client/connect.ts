import { UsageError } from '../commands/usage-error.ts'
import { type ChosenServer, chooseServer } from './chosen-server.ts'
import type { ClientContext, OptionValues } from './client-context.ts'
import { CommandError } from './command-error.ts'
import { createHttpClient, type HttpClient } from './http-client.ts'
import { createUserGit, type UserGit } from './user-git.ts'

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
  if (/^[\x21-\x7e]{1,1000}$/.test(token)) return
  throw new CommandError(
    'unauthorized',
    'This is not a token: it is empty, or has other characters.',
  )
}
