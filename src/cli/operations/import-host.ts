import { printable } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import type { Sensitive } from '#base/sensitive.ts'
import { trimEndOf } from '#base/trim-end.ts'
import { explainConnection } from '../servers/response-errors.ts'
import { CommandError, UsageError } from '../terminal/command-errors.ts'
import { at, listAt, textAt } from '../terminal/display.ts'
import type { BranchRule, Candidate } from './import-candidate.ts'

/** The hosts that `svc import --from` reads. */
export const importHosts = ['gitea', 'github', 'gitlab'] as const
export type ImportHost = (typeof importHosts)[number]

/** How a host is read: its API, and what its fields mean. */
type HostApi = {
  /** The address of the API, by that of the host. */
  base: (url: URL) => string
  repositories: { path: string; query: Record<string, string>; rows?: string }
  /** Username for Git with a token as the password. */
  gitUser: string
  /** The path of a repository, such as `acme/site`. */
  path: string
  visibilityOf: (row: Json) => string
  /** The address of a repository in the API. */
  resource: (row: Json) => string
  protections: (read: Read, resource: string) => Promise<BranchRule[]>
  deployKeys: string
  /** Whether a deploy key may push. */
  mayPush: (key: Json) => boolean
  hooks: string
  hookUrl: string
}

/** Reads all pages of a list. */
type Read = (path: string) => Promise<Json[]>

/** The visibility here of a repository that is not more visible there. */
const byPrivate = (row: Json) => {
  // Gitea says internal of a private organization, whose members alone see it; of a limited one, users do.
  if (at(row, 'private') !== false || at(row, 'internal') === true) return 'private'
  return textAt(row, 'owner.visibility') === 'limited' ? 'internal' : 'public'
}

/** What the API of Gitea has from that of GitHub. */
const asGithub = {
  path: 'full_name',
  resource: (row: Json) => `/repos/${encodePath(textAt(row, 'full_name'))}`,
  deployKeys: 'keys',
  mayPush: (key: Json) => at(key, 'read_only') === false,
  hooks: 'hooks',
  hookUrl: 'config.url',
}

const hosts: Record<ImportHost, HostApi> = {
  gitea: {
    ...asGithub,
    base: (url) => `${url.href}api/v1`,
    repositories: { path: '/repos/search', query: { sort: 'id' }, rows: 'data' },
    gitUser: 'svc',
    visibilityOf: byPrivate,
    protections: async (read, resource) =>
      (await read(`${resource}/branch_protections`)).map((rule) => ({
        pattern: textAt(rule, 'rule_name') || textAt(rule, 'branch_name'),
        // Otherwise everybody who may write may push to it.
        isRestricted:
          at(rule, 'enable_push') !== true || at(rule, 'enable_push_whitelist') === true,
        forcePush: at(rule, 'enable_force_push') === true,
      })),
  },
  github: {
    ...asGithub,
    base: (url) => (url.hostname === 'github.com' ? 'https://api.github.com' : `${url.href}api/v3`),
    repositories: {
      path: '/user/repos',
      query: { affiliation: 'owner,organization_member', sort: 'full_name' },
    },
    gitUser: 'x-access-token',
    visibilityOf: (row) => textAt(row, 'visibility') || byPrivate(row),
    protections: async (read, resource) => {
      const rules: BranchRule[] = []
      for (const branch of await read(`${resource}/branches?protected=true`)) {
        const pattern = textAt(branch, 'name')
        const [rule = null] = await read(
          `${resource}/branches/${encodeURIComponent(pattern)}/protection`,
        )
        const isRestricted =
          at(rule, 'restrictions') !== null || at(rule, 'required_pull_request_reviews') !== null
        const forcePush = at(rule, 'allow_force_pushes.enabled') === true
        rules.push({ pattern, isRestricted, forcePush })
      }
      return rules
    },
  },
  gitlab: {
    base: (url) => `${url.href}api/v4`,
    repositories: {
      path: '/projects',
      query: { membership: 'true', order_by: 'id', sort: 'asc' },
    },
    gitUser: 'oauth2',
    path: 'path_with_namespace',
    visibilityOf: (row) => textAt(row, 'visibility'),
    resource: (row) => `/projects/${textAt(row, 'id')}`,
    protections: async (read, resource) =>
      (await read(`${resource}/protected_branches`)).map((rule) => ({
        pattern: textAt(rule, 'name'),
        // 30 is the level of developers, who may push to all other branches.
        isRestricted: !listAt(rule, 'push_access_levels').some(
          (level) => at(level, 'access_level') === 30,
        ),
        forcePush: at(rule, 'allow_force_push') === true,
      })),
    deployKeys: 'deploy_keys',
    mayPush: (key) => at(key, 'can_push') === true,
    hooks: 'hooks',
    hookUrl: 'url',
  },
}

type Access = { host: ImportHost; address: string; token: Sensitive<string>; timeoutMs: number }

/** A response of an API. */
type Page = { body: Json; headers: Headers; length: number }

/** Taken by all hosts; one that is configured with less says so by its headers. */
const pageSize = 50
// Of a response, and of all pages of a list: a host must not fill the memory.
const maxBytes = 8 * 1024 * 1024
const listMaxLength = 256 * 1024 * 1024
const detailsMaxLength = 16 * 1024 * 1024
const maxPages = 1000

/**
 * The repositories that a token of a host may read, with what svc has a counterpart for. Throws a UsageError for an
 * address that is none, and a CommandError for a host that does not respond as its API does.
 */
export async function findOnHost({
  host,
  address,
  token,
  timeoutMs,
}: Access): Promise<Candidate[]> {
  const api = hosts[host]
  const url = toHostUrl(address)
  const base = api.base(url)

  /** Undefined for what the token may not read. */
  async function fetchJson(path: string): Promise<Page | undefined> {
    const headers = { accept: 'application/json', authorization: `Bearer ${token.reveal()}` }
    const signal = AbortSignal.timeout(timeoutMs)
    const response = await fetch(base + path, { headers, redirect: 'error', signal }).catch(
      (error: unknown) => {
        throw explainConnection(base, error instanceof Error ? (error.cause ?? error) : error)
      },
    )
    const { status } = response
    const text = await readLimited(response)
    if (status === 401) throw new CommandError('unauthorized', `${base} refuses the token.`)
    // What a token may not read is listed as missing, since the rest can be moved without it.
    if (status === 403 || status === 404) return undefined
    try {
      const { length } = text
      if (status === 200) return { body: JSON.parse(text), headers: response.headers, length }
    } catch {
      // The same as another status.
    }
    const detail = `${base}${path} responds with status ${status}, and not as the API of ${host} does.`
    throw new CommandError('unreachable', printable(detail))
  }

  /**
   * What is needed of all entries of a list, or of a single object, without the rest of the responses; undefined when the
   * token may not read it.
   */
  async function readPages<Entry>(
    path: string,
    {
      toEntry,
      rows,
      maxLength,
    }: { toEntry: (row: Json) => Entry; rows?: string; maxLength: number },
  ): Promise<Entry[] | undefined> {
    const all: Entry[] = []
    const separator = path.includes('?') ? '&' : '?'
    let length = 0
    for (let page = 1; page <= maxPages; page++) {
      const query = `${separator}per_page=${pageSize}&limit=${pageSize}&page=${page}`
      const found = await fetchJson(path + query)
      if (!found) return undefined
      length += found.length
      if (length > maxLength) break
      const list = rows === undefined ? found.body : at(found.body, rows)
      if (!Array.isArray(list)) return list === null ? all : [toEntry(list)]
      all.push(...list.map(toEntry))
      if (list.length === 0 || !hasNext(found.headers, all.length)) return all
    }
    throw new CommandError('unreachable', printable(`The list ${base}${path} is too long.`))
  }

  function toCandidate(row: Json): Candidate {
    const path = textAt(row, api.path)
    const resource = api.resource(row)
    const source = `${url.href}${encodePath(path)}.git`
    const withToken = new URL(source)
    withToken.username = api.gitUser
    withToken.password = token.reveal()
    return {
      ...{ source, address: withToken.href, path },
      description: textAt(row, 'description'),
      defaultBranch: textAt(row, 'default_branch'),
      visibility: api.visibilityOf(row),
      async readDetails() {
        const unread = new Set<string>()
        const reading = (what: string) => async (from: string) => {
          const each = { toEntry: (row: Json) => row, maxLength: detailsMaxLength }
          const found = await readPages(from, each)
          if (!found) unread.add(what)
          return found ?? []
        }
        const keys = await reading('deploy keys')(`${resource}/${api.deployKeys}`)
        const hooks = await reading('webhooks')(`${resource}/${api.hooks}`)
        const protections = await api.protections(reading('protected branches'), resource)
        return {
          protections,
          deployKeys: keys.map((key) => ({
            name: textAt(key, 'title') || 'deploy key',
            publicKey: textAt(key, 'key'),
            mayPush: api.mayPush(key),
          })),
          webhooks: hooks.map((hook) => textAt(hook, api.hookUrl)),
          unread: [...unread],
        }
      },
    }
  }

  const { path, query, rows } = api.repositories
  const each = {
    toEntry: toCandidate,
    ...(rows !== undefined && { rows }),
    maxLength: listMaxLength,
  }
  const list = await readPages(`${path}?${new URLSearchParams(query)}`, each)
  if (!list) {
    const detail = `${base} does not list repositories to this token; it needs the right to read them.`
    throw new CommandError('unauthorized', detail)
  }
  return list
}

/** Whether a list goes on after a page, by its `Link` (RFC 8288) or its number of entries. */
function hasNext(headers: Headers, count: number): boolean {
  const link = headers.get('link')
  return link === null
    ? Number(headers.get('x-total-count') ?? 0) > count
    : /\brel="?next\b/.test(link)
}

/** The address of a host, with a slash at its end. */
function toHostUrl(address: string): URL {
  const url = URL.parse(address)
  const isPlain = url?.username === '' && url.password === '' && url.search + url.hash === ''
  if (!url || !isPlain || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(
      'Give the address of the host, such as https://git.example.com; the token is read from a prompt or standard input.',
    )
  }
  url.pathname = `${trimEndOf(url.pathname, '/')}/`
  return url
}

function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/')
}

/** The text of a response, of at most 8 MiB. */
async function readLimited(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > maxBytes) throw new CommandError('unreachable', `${response.url} sends too much.`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
