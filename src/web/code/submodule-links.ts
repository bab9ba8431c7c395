import { parseGitAddress } from '#base/git-address.ts'
import type { Links } from '../links.ts'
import { hasMisreadHost } from '../render/document-links.ts'

type Place = {
  /** The repository with the submodules. */
  name: string
  baseUrl: string
  /** Its address over SSH, if there is one. */
  sshUrl: string | null
  to: Pick<Links, 'repository'>
}

/** Reads a .gitmodules file: the pages of the repositories of its submodules, on this server or the web, by path. */
export function submoduleLinks(text: string, place: Place): ReadonlyMap<string, string> {
  const links = new Map<string, string>()
  let path: string | undefined
  let url: string | undefined
  const add = () => {
    const link = url === undefined ? undefined : toLink(url, place)
    if (path !== undefined && link !== undefined) links.set(path, link)
  }
  for (const line of text.split('\n')) {
    if (line.trimStart().startsWith('[')) {
      add()
      path = undefined
      url = undefined
    }
    const [key, ...rest] = line.split('=')
    const value = unquoted(rest.join('=').trim())
    if (key?.trim() === 'path') path = value
    if (key?.trim() === 'url') url = value
  }
  add()
  return links
}

function unquoted(value: string): string {
  return value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value
}

/** The page of a repository by its address, which may be relative to that of its superproject: git-submodule(1). */
function toLink(address: string, { name, baseUrl, sshUrl, to }: Place): string | undefined {
  if (hasMisreadHost(address)) return undefined
  const base = URL.parse(baseUrl)
  const ssh = sshUrl === null ? null : URL.parse(sshUrl)
  const url = /^\.\.?\//.test(address)
    ? URL.parse(address, `${baseUrl}/repos/${name}.git/`)
    : parseGitAddress(address)
  if (!base || !url || !['http:', 'https:', 'ssh:', 'git:'].includes(url.protocol)) return undefined
  const isWeb = url.protocol.startsWith('http')
  const isSsh = url.protocol === 'ssh:'
  if (isWeb ? url.host === base.host : isSsh && ssh && hostAndPort(url) === hostAndPort(ssh)) {
    const folder = isWeb ? `${base.pathname.replace(/\/$/, '')}/repos/` : '/'
    const [, own] =
      /^((?:[\w.-]+\/)?[\w.-]+?)(?:\.git)?\/?$/.exec(
        url.pathname.startsWith(folder) ? url.pathname.slice(folder.length) : '',
      ) ?? []
    return own === undefined ? undefined : to.repository(own)
  }
  // A name without a dot is of a local network, or no host; this host has other services than those above.
  if (!isWeb && (!url.hostname.includes('.') || url.hostname === base.hostname)) return undefined
  // Hosts serve their pages where they serve Git; an address may have a password.
  return `${isWeb ? url.origin : `https://${url.hostname}`}${url.pathname.replace(/(\.git)?\/?$/, '')}`
}

function hostAndPort({ hostname, port }: URL): string {
  return `${hostname}:${port || 22}`
}
