import { Sensitive } from '#base/sensitive.ts'
import { isTokenString } from '#base/token-string.ts'
import { chooseServer } from '../client/chosen-server.ts'
import { createUserGit } from '../client/user-git.ts'
import { UsageError } from './usage-error.ts'

/** The server of a command, and the token for it. */
export type ServerAccess = { url: URL; token: Sensitive<string> }

type Options = {
  environment: NodeJS.ProcessEnv
  /** The current directory. */
  folder: string
  /** A server that the user is logged in to; undefined for that of SVC_URL, of the clone, or the default one. */
  name: string | undefined
}

/** The server of a command, chosen as by the commands for servers. Throws a UsageError. */
export async function toServer({ environment, folder, name }: Options): Promise<ServerAccess> {
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
