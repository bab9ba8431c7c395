import { printable, toDate, toTable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { CommandError, clientExitCodes, UsageError } from '../terminal/command-errors.ts'
import { showResult, textAt } from '../terminal/display.ts'
import { readTokenFor } from '../terminal/given-values.ts'
import { logInByBrowser, logInByCode, providerOf } from './browser-login.ts'
import {
  assertToken,
  type ClientContext,
  connectClient,
  localName,
  type OptionValues,
  toTimeout,
} from './connect.ts'
import { forgetCredential, storeCredential } from './credential-store.ts'
import { createHttpClient, notSvc } from './http-client.ts'
import { browserOf } from './open-browser.ts'
import {
  isLoopback,
  type KnownServer,
  parseServerAddress,
  readServerList,
  serverListPath,
  writeServerList,
} from './server-list.ts'
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
  const list = await readServerList(environment)
  const name = typeof options.name === 'string' ? options.name : nameFor(url, list.servers)
  if (!nameForm.test(name) || name === localName) {
    throw new UsageError(
      `"${name}" is not a name for a server; --name takes letters, digits, . _ : -`,
    )
  }
  const known = list.servers.find((server) => server.name === name)
  if (known && known.url !== url) {
    throw new UsageError(`The name "${name}" is that of ${known.url}; choose another with --name.`)
  }
  if (url.startsWith('http:') && !isLoopback(url)) {
    terminal.err('svc: The address begins with http://, so the token is sent unencrypted.\n')
  }
  const timeoutMs = toTimeout(options.timeout)
  await assertServer(context, { url, timeoutMs })
  const { token, isNew } = await getToken(context, { url, timeoutMs }, options)
  await assertAccepted(context, { url, token, timeoutMs })
  const end = isNew ? await endOf(context, { url, token, timeoutMs }) : ''

  const git = createUserGit(environment, folder)
  const isStored = await storeCredential(git, { name, url, token })
  const server: KnownServer = { name, url, token: isStored ? undefined : token }
  const others = list.servers.filter((one) => one.name !== name)
  const standard = others.find((one) => one.name === list.defaultName)
  const updated = { defaultName: standard?.name ?? name, servers: [...others, server] }
  await writeServerList(environment, updated)
  const place = isStored ? "Git's credential helper" : serverListPath(environment)
  const replaced = known ? ' in place of the one before' : ''
  showResult(
    { terminal, json: options.json === true },
    { name, url, isDefault: !standard, keptBy: isStored ? 'git' : 'file' },
    `Logged in to ${url} as the server ${name}; ${place} keeps the token${replaced}.${end}${choiceOf(name, standard, environment)}`,
  )
}

/** The login that a new one without a name replaces, or a new one named by its host. */
function nameFor(url: string, servers: KnownServer[]): string {
  const { host } = new URL(url)
  const names = servers.filter((one) => one.url === url).map(({ name }) => name)
  const [first = host] = names
  if (names.length < 2) return first
  if (names.includes(host)) return host
  throw new UsageError(
    `You are logged in to ${url} as ${names.join(' and as ')}; say with --name which login this is.`,
  )
}

/** How commands find the server of a new login when they would not choose it by themselves. */
function choiceOf(
  name: string,
  standard: KnownServer | undefined,
  { SVC_URL: url, SVC_DATA_DIR: dataDir }: NodeJS.ProcessEnv,
): string {
  if (url) return ` SVC_URL is set, so commands use that server unless they have --server ${name}.`
  if (dataDir)
    return ` SVC_DATA_DIR is set, so commands use that data directory unless they have --server ${name} or are run in a clone from it.`
  if (!standard) return ''
  return ` Commands still use ${standard.name} (${standard.url}) unless they have --server ${name} or are run in a clone from it; svc servers default ${name} makes it the default.`
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
  const next = list.defaultName === defaultName ? undefined : servers[0]
  const change = next ? ` The default is now ${next.name} (${next.url}).` : ''
  showResult(
    { terminal, json: options.json === true },
    { name: server.name, url: server.url, loggedOut: true },
    `Logged out of ${server.name}. The token is still valid; svc tokens revoke ends one.${change}`,
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

async function readTokenOf(url: string, terminal: ClientContext['terminal']): Promise<string> {
  const token = await readTokenFor(url, terminal)
  assertToken(token)
  return token
}

/** A new token by the browser or a code, where the person asks for that or the server has an identity provider. */
async function getToken(
  context: ClientContext,
  login: { url: string; timeoutMs: number },
  { browser, code, token }: OptionValues,
): Promise<{ token: string; isNew: boolean }> {
  const { terminal, environment } = context
  const isAsked = browser === true || code === true
  const isInteractive = terminal.askHidden !== undefined
  if (!isAsked && (token === true || !isInteractive || (await providerOf(login)) === null))
    return { token: await readTokenOf(login.url, terminal), isNew: false }
  const hasBrowser = browserOf(environment) !== undefined
  if (code !== true && !hasBrowser)
    terminal.err(
      'svc: No browser can be opened here (see BROWSER, DISPLAY), so log in by a code.\n',
    )
  const logInNow = code === true || !hasBrowser ? logInByCode : logInByBrowser
  return { token: await logInNow(context, login), isNew: true }
}

/** Only a server of svc gets a token. */
async function assertServer(
  { version }: ClientContext,
  { url, timeoutMs }: { url: string; timeoutMs: number },
): Promise<void> {
  const anonymous = createHttpClient({ url, token: undefined, timeoutMs, version })
  const description = await anonymous.json({ method: 'GET', path: '/openapi.json' })
  if (textAt(description, 'info.title') !== 'svc') {
    throw new CommandError('unreachable', `${url} is not a server of svc.`)
  }
}

async function assertAccepted(
  { version }: ClientContext,
  { url, token, timeoutMs }: { url: string; token: string; timeoutMs: number },
): Promise<void> {
  const client = createHttpClient({ url, token, timeoutMs, version })
  // Any token may list what was delegated from it.
  const request = { method: 'GET', path: '/tokens/delegated', query: { limit: 1 } }
  await client.json(request).catch((error: unknown) => {
    const isRefused =
      error instanceof CommandError && error.exitCode === clientExitCodes.unauthorized
    if (!isRefused) throw error
    const detail = `${url} does not accept this token: it is mistyped, expired or deleted.`
    throw new CommandError('unauthorized', detail, { cause: error })
  })
}

/** When a new token ends, in words: soon, where the server cannot check whether the person has left. */
async function endOf(
  { version }: ClientContext,
  login: { url: string; token: string; timeoutMs: number },
): Promise<string> {
  const client = createHttpClient({ ...login, version })
  const caller = await client.json({ method: 'GET', path: '/user' })
  const { expiresAt } = Object(Object(caller).credential)
  const isTime = Number.isInteger(expiresAt) && new Date(expiresAt).getTime() === expiresAt
  return isTime ? ` It is valid until ${toDate(expiresAt)}.` : ''
}

/** `svc login --web`: the address is all that standard output has, for a program that opens it. */
export async function printLoginLink(
  context: ClientContext,
  server: string | undefined,
  options: OptionValues,
): Promise<void> {
  const { terminal } = context
  if (server !== undefined && options.server !== undefined) {
    throw new UsageError('Name the server once: as an argument or with --server.')
  }
  const { client } = await connectClient(context, { ...options, server: server ?? options.server })
  if (!client) {
    throw new UsageError(
      `--web needs a server that you are logged in to, and ${localName} is a data directory.`,
    )
  }
  const link = await client.json({ method: 'POST', path: '/login-codes' })
  // A browser would execute or open other addresses.
  if (!/^https?:\/\/[^/]/.test(textAt(link, 'url'))) throw notSvc(client.url)
  if (options.json === true) return terminal.out(toSafeJson(link))
  terminal.out(`${printable(textAt(link, 'url'))}\n`)
  terminal.err('Open this address in a browser within a minute; it works once.\n')
}
