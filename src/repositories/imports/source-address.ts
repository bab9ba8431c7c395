import { posix } from 'node:path'
import { isRepositoryName } from '#access/names.ts'
import { toHost } from '#base/outbound/host.ts'
import type { Problem } from '#base/problem.ts'
import { Sensitive } from '#base/sensitive.ts'
import { trimEndOf } from '#base/trim-end.ts'
import { invalid } from '#http/validation.ts'

/** Where a repository is imported from. */
export type Source = RemoteSource | LocalSource

export type RemoteSource = {
  kind: 'remote'
  protocol: Protocol
  /** A name in lower case, or an IP address without brackets, as `outbound.resolve` takes it. */
  host: string
  port: number | undefined
  /** Percent-encoded as it was given; starts with a slash. */
  path: string
  /** Decoded. Sensitive, too, because tokens are often sent as the username. */
  username: Sensitive<string> | undefined
  password: Sensitive<string> | undefined
  /** The URL without credentials, for git, events, logs and users. */
  shown: string
  /** The repository name derived from the URL, if it is valid. */
  nameHint: string | undefined
}

export type LocalSource = {
  kind: 'local'
  /** Absolute and normalized; symbolic links are not resolved. */
  path: string
  nameHint: string | undefined
}

const protocols = ['https', 'http', 'ssh', 'git'] as const
type Protocol = (typeof protocols)[number]

const maxLength = 2048
const example = 'ssh://git@example.com/project.git'

/**
 * Parses the source of an import: an https, http, ssh or git URL, or an absolute path. Stricter than git, which decodes
 * ssh:// and git:// URLs before it searches them for the host, and searches the path for "@[", too (parse_connect_url
 * and host_end in connect.c): an accepted URL means the same host to git. Throws `invalid_request`, with a message that
 * never contains a secret.
 */
export function parseSource(text: string): Source {
  if (text === '') throw refused('is empty')
  if (text.length > maxLength) throw refused(`has more than ${maxLength} characters`)
  if (/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(text)) throw refused('has control characters in it')
  if (text.startsWith('-')) throw refused('starts with "-" and would be taken as an option')
  if (text.startsWith('/')) return parseLocal(text)
  if (/^[a-z0-9][a-z0-9+.-]*::/i.test(text)) throw refused('names a transport of its own')
  const [, scheme, rest = ''] = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/is.exec(text) ?? []
  if (scheme === undefined) throw refused(faultWithoutScheme(text))
  const protocol = protocols.find((one) => one === scheme.toLowerCase())
  if (protocol) return parseRemote(protocol, rest)
  throw refused(
    scheme.toLowerCase() === 'file'
      ? 'is a file:// address; a local repository is named by its path alone, which starts with "/"'
      : 'has a scheme that is not accepted',
  )
}

function parseLocal(text: string): LocalSource {
  // The part before `..` may be a symbolic link, and normalizing would then change the meaning.
  if (text.split('/').includes('..')) throw refused('has ".." in its path')
  const path = posix.normalize(text).replace(/(?<=.)\/$/, '')
  return { kind: 'local', path, nameHint: toName(path) }
}

function parseRemote(protocol: Protocol, rest: string): RemoteSource {
  assertPlain(rest)
  const slash = rest.indexOf('/')
  const authority = slash === -1 ? rest : rest.slice(0, slash)
  const path = slash === -1 ? '' : rest.slice(slash)
  const [host, user, ...further] = authority.split('@').reverse()
  if (further.length > 0) throw refused('has more than one "@" before its path; %40 stands for it')
  const { username, password } = readUser(protocol, user)
  const { name, port } = readHost(host ?? '')
  assertPath(protocol, path)
  const written = name.includes(':') ? `[${name}]` : name
  const shown = `${protocol}://${written}${port === undefined ? '' : `:${port}`}${path}`
  const nameHint = toName(decode(path) ?? '')
  return { kind: 'remote', protocol, host: name, port, path, username, password, shown, nameHint }
}

// Rejects characters that git and this parser could interpret differently.
function assertPlain(rest: string): void {
  if (/\s/.test(rest)) throw refused('has a space in it; %20 stands for one')
  if (rest.includes('\\')) throw refused('has a backslash in it')
  if (rest.includes('?')) throw refused('has a query; %3F stands for "?" in a path or password')
  if (rest.includes('#')) throw refused('has a fragment; %23 stands for "#" in a path or password')
  if (/%(?![0-9a-f]{2})/i.test(rest))
    throw refused('has a "%" that encodes nothing; %25 stands for it')
  if (/%(?:[01][0-9a-f]|7f)/i.test(rest)) throw refused('has encoded control characters in it')
}

function readHost(text: string): { name: string; port: number | undefined } {
  const [, host, digits = ''] = /^(\[[^\]]*\]|[^:[\]]*)(?::(\d*))?$/.exec(text) ?? []
  if (host === undefined) {
    throw refused(
      `has no number as its port; a path starts with a slash (${example}), and an IPv6 address is in brackets`,
    )
  }
  if (host === '') throw refused('has no host')
  const meaning = toHost(host)
  if (!meaning) throw refused('has a host that is neither a host name nor an IP address')
  const port = digits === '' ? undefined : Number(digits)
  if (port === 0 || (port ?? 1) > 65_535) throw refused('has a port that is not from 1 to 65535')
  return { name: meaning.kind === 'name' ? meaning.name : meaning.address, port }
}

function readUser(protocol: Protocol, text: string | undefined) {
  if (text === undefined || text === '') return { username: undefined, password: undefined }
  if (protocol === 'git') throw refused('has a user, and git:// knows none')
  if (!/^[\w.~!$&'()*+,;=:%-]*$/.test(text)) {
    throw refused('has characters in its user or password that must be percent-encoded')
  }
  const [, first = '', second] = /^([^:]*)(?::(.*))?$/.exec(text) ?? []
  const username = decode(first)
  const password = second === undefined ? undefined : decode(second)
  if (username === undefined || (second !== undefined && password === undefined)) {
    throw refused('has a user or password that is not UTF-8')
  }
  // Git decodes an ssh:// URL before it searches for the host, and then passes user@host to ssh.
  const isAccepted = protocol === 'ssh' ? /^[\w.~+=,@-]+$/.test(username) : !username.includes(':')
  if (!isAccepted || username.startsWith('-')) throw refused('has a user that is not accepted')
  return {
    username: new Sensitive(username),
    password: password === undefined ? undefined : new Sensitive(password),
  }
}

function assertPath(protocol: Protocol, path: string): void {
  if (/^\/*$/.test(path)) throw refused('has no path')
  // A password with an unencoded "/" would end up in the path, which is shown.
  if (path.includes('@')) {
    throw refused('has "@" in its path; %40 stands for it, and %2F for "/" in a user or password')
  }
  // Git would read the host from there.
  const isDecoded = protocol === 'ssh' || protocol === 'git'
  if (isDecoded && /%40(?:\[|%5b)/i.test(path)) throw refused('has "@[" in its path')
}

function faultWithoutScheme(text: string): string {
  if (/^(?:https?|ssh):/i.test(text)) return 'has no "//" after its scheme'
  const [, user, host, path = ''] = /^([\w.-]+@)?([\w.-]+):([\w.~/-]+)$/.exec(text) ?? []
  if (host !== undefined) {
    const shownUser = user === undefined || user === 'git@' ? user : '<user>@'
    return `has no scheme; write ssh://${shownUser ?? ''}${host}/${path.replace(/^\/+/, '')}`
  }
  if (/^[^/]*:/.test(text)) return `has no scheme; an SSH address is written like ${example}`
  return 'is a relative path; a local repository is named by a path that starts with "/"'
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

function toName(path: string): string | undefined {
  const whole = trimEndOf(path, '/')
  const folder = whole.endsWith('/.git') ? trimEndOf(whole.slice(0, -'.git'.length), '/') : whole
  const name = folder.slice(folder.lastIndexOf('/') + 1).replace(/\.git$/, '')
  return isRepositoryName(name) ? name : undefined
}

function refused(fault: string): Problem {
  const detail = `${fault}; it must be an https, http, ssh or git address, or an absolute path.`
  return invalid([{ pointer: '/source', detail }])
}
