import { UsageError } from '../terminal/command-errors.ts'
import type { ClientContext } from './connect.ts'
import { assertToken, localName, readToken } from './connect.ts'
import {
  defaultFirst,
  type KnownServer,
  parseServerAddress,
  readServerList,
} from './server-list.ts'
import { createUserGit, recursionGuard } from './user-git.ts'

const operationNames = ['get', 'store', 'erase']

/** `svc git-credential`: the protocol of gitcredentials(7) and git-credential(1). */
export async function answerGit(context: ClientContext, operation: string): Promise<void> {
  if (!operationNames.includes(operation)) {
    throw new UsageError(`svc git-credential takes ${operationNames.join(', ')}.`)
  }
  const { environment, terminal, folder } = context
  const request = parseRequest((await terminal.read()).toString('utf8'))
  // Git asks again while this program asks Git for the token of a login.
  if (operation !== 'get' || environment[recursionGuard]) return
  const server = await findServer(environment, request)
  if (!server) return
  const token = await readToken(environment, createUserGit(environment, folder), {
    server,
    isNamed: false,
  })
  if (token === undefined) return
  assertToken(token)
  terminal.out(`username=${request.get('username') ?? 'git'}\npassword=${token}\n`)
}

/** The token goes to the server whose address begins with the same scheme, host and port, and path if there is one. */
async function findServer(
  environment: NodeJS.ProcessEnv,
  request: Map<string, string>,
): Promise<KnownServer | undefined> {
  const { SVC_URL: url } = environment
  const known = defaultFirst(await readServerList(environment))
  const fromEnvironment = url ? parseServerAddress(url, 'SVC_URL') : undefined
  const all = [
    ...(fromEnvironment && !known.some((one) => one.url === fromEnvironment)
      ? [{ name: '', url: fromEnvironment, token: undefined }]
      : []),
    ...known,
  ]
  return all.find((server) => server.name !== localName && isFor(server, request))
}

function isFor({ url }: KnownServer, request: Map<string, string>): boolean {
  const { protocol, host, pathname } = new URL(url)
  const path = request.get('path')
  return (
    request.get('protocol') === protocol.slice(0, -1) &&
    request.get('host') === host &&
    (path === undefined || pathname === '/' || `/${path}/`.startsWith(`${pathname}/`))
  )
}

function parseRequest(text: string): Map<string, string> {
  const lines = text.split('\n').filter((line) => line.includes('='))
  return new Map(
    lines.map((line) => {
      const end = line.indexOf('=')
      return [line.slice(0, end), line.slice(end + 1)]
    }),
  )
}
