import { toTable } from '../base/format.ts'
import { toSafeJson } from '../base/safe-text.ts'
import { UsageError } from '../commands/usage-error.ts'
import { localName } from './chosen-server.ts'
import type { ClientContext, OptionValues } from './client-context.ts'
import { CommandError } from './command-error.ts'
import { assertToken, toTimeout } from './connect.ts'
import { forgetCredential, storeCredential } from './credential-store.ts'
import { textAt } from './display.ts'
import { createHttpClient } from './http-client.ts'
import { isLoopback, parseServerAddress } from './server-address.ts'
import { type KnownServer, readServerList, serverListPath, writeServerList } from './server-list.ts'
import { showResult } from './show-result.ts'
import { createUserGit } from './user-git.ts'

const nameForm = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/

/** `svc login`: the token is checked before it is kept. */
export async function logIn(
  context: ClientContext,
  address: string | undefined,
  options: OptionValues,
): Promise<void> {
  if (address === undefined) throw new UsageError('svc login takes the address of a server.')
  const { environment, terminal, folder } = context
  const url = parseServerAddress(address)
  const name = typeof options.name === 'string' ? options.name : new URL(url).host
  if (!nameForm.test(name) || name === localName) {
    throw new UsageError(
      `"${name}" is not a name for a server; --name takes letters, digits, . _ : -`,
    )
  }
  const list = await readServerList(environment)
  const known = list.servers.find((server) => server.name === name)
  if (known && known.url !== url) {
    throw new UsageError(`The name "${name}" is that of ${known.url}; choose another with --name.`)
  }
  if (url.startsWith('http:') && !isLoopback(url)) {
    terminal.err('svc: The address begins with http://, so the token is sent unencrypted.\n')
  }
  const token = await readTokenOf(url, terminal)
  await assertAccepted(context, { url, token, timeoutMs: toTimeout(options.timeout) })

  const git = createUserGit(environment, folder)
  const isStored = await storeCredential(git, { name, url, token })
  const server: KnownServer = { name, url, token: isStored ? undefined : token }
  const servers = [...list.servers.filter((one) => one.name !== name), server]
  await writeServerList(environment, { defaultName: list.defaultName ?? name, servers })
  const place = isStored ? "Git's credential helper" : serverListPath(environment)
  showResult(
    { terminal, json: options.json === true },
    { name, url, keptBy: isStored ? 'git' : 'file' },
    `Logged in to ${url} as the server ${name}; ${place} keeps the token.`,
  )
}

/** `svc logout` */
export async function logOut(
  { environment, terminal, folder }: ClientContext,
  name: string | undefined,
  options: OptionValues,
): Promise<void> {
  const list = await readServerList(environment)
  const server = findServer(list.servers, name ?? list.defaultName)
  if (server.token === undefined) await forgetCredential(createUserGit(environment, folder), server)
  const servers = list.servers.filter((one) => one !== server)
  const defaultName = list.defaultName === server.name ? servers[0]?.name : list.defaultName
  await writeServerList(environment, { defaultName, servers })
  showResult(
    { terminal, json: options.json === true },
    { name: server.name, url: server.url, loggedOut: true },
    `Logged out of ${server.name}. The token is still valid; svc tokens revoke ends one.`,
  )
}

/** `svc servers` */
export async function listServers(
  { environment, terminal }: ClientContext,
  { json }: OptionValues,
): Promise<void> {
  const { servers, defaultName } = await readServerList(environment)
  const rows = servers.map(({ name, url, token }) => {
    return {
      name,
      url,
      isDefault: name === defaultName,
      keptBy: token === undefined ? 'git' : 'file',
    }
  })
  if (json === true) return terminal.out(toSafeJson(rows))
  const cells = rows.map((row) => [row.name, row.url, row.isDefault ? 'yes' : '', row.keptBy])
  terminal.out(toTable([['NAME', 'URL', 'DEFAULT', 'TOKEN IN'], ...cells]))
}

/** `svc servers default` */
export async function chooseDefault(
  { environment, terminal }: ClientContext,
  name: string,
  { json }: OptionValues,
): Promise<void> {
  const list = await readServerList(environment)
  const server = findServer(list.servers, name)
  await writeServerList(environment, { ...list, defaultName: server.name })
  showResult({ terminal, json: json === true }, { default: server.name }, `The default is ${name}.`)
}

function findServer(servers: KnownServer[], name: string | undefined): KnownServer {
  const found = servers.find((server) => server.name === name || server.url === name)
  if (found) return found
  throw new CommandError(
    'failure',
    name === undefined ? 'You are not logged in to a server.' : `There is no server "${name}".`,
  )
}

async function readTokenOf(
  url: string,
  { askHidden, read }: ClientContext['terminal'],
): Promise<string> {
  const text = askHidden ? await askHidden(`Token for ${url}: `) : (await read()).toString('utf8')
  const token = text.trim()
  assertToken(token)
  return token
}

/** The first request goes without the token: only a server of svc gets it. */
async function assertAccepted(
  { version }: ClientContext,
  { url, token, timeoutMs }: { url: string; token: string; timeoutMs: number },
): Promise<void> {
  const anonymous = createHttpClient({ url, token: undefined, timeoutMs, version })
  const description = await anonymous.json({ method: 'GET', path: '/openapi.json' })
  if (textAt(description, 'info.title') !== 'svc') {
    throw new CommandError('unreachable', `${url} is not a server of svc.`)
  }
  const client = createHttpClient({ url, token, timeoutMs, version })
  // Any token may list what was delegated from it.
  await client.json({ method: 'GET', path: '/tokens/delegated', query: { limit: 1 } })
}
