import { posix } from 'node:path'
import { isRepositoryName } from '../access/names.ts'
import { Problem } from '../base/problem.ts'
import { Sensitive } from '../base/sensitive.ts'
import { trimEndOf } from '../base/trim-end.ts'
import { toHost } from '../outbound/host.ts'

/** Where a repository is imported from. */
export type Source = RemoteSource | LocalSource

export type RemoteSource = {
  kind: 'remote'
  protocol: Protocol
  /** A name in lower case, or an IP address without brackets: what `outbound.resolve` is asked. */
  host: string
  port: number | undefined
  /** Percent-encoded as it was given; starts with a slash. */
  path: string
  /** Decoded. Sensitive, too: a token often stands in the username's place. */
  username: Sensitive<string> | undefined
  password: Sensitive<string> | undefined
  /** The address without credentials, as git is given it, and for events, logs and people. */
  shown: string
  /** What the repository may be called after its address, if that is a name. */
  nameHint: string | undefined
}

export type LocalSource = {
  kind: 'local'
  /** Absolute, without `.`, `..` and needless slashes; symbolic links are as they were given. */
  path: string
  nameHint: string | undefined
}

const protocols = ['https', 'http', 'ssh', 'git'] as const
type Protocol = (typeof protocols)[number]

const maxLength = 2048
const example = 'ssh://git@example.com/project.git'

/**
 * Reads the address of a repository that is to be imported: https, http, ssh or git, or an absolute path.
 * It is read more strictly than git does, which decodes ssh:// and git:// addresses before it looks for the
 * host in them, and looks for "@[" in the path, too (parse_connect_url and host_end in its connect.c): what is
 * accepted means the same host to git. Throws `invalid_request`, and repeats nothing that may be a secret.
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
  // To the system, what is before `..` may be a symbolic link, and `..` then leads elsewhere than it seems to.
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

// What is not part of an address of git, and would be taken as one thing here and as another there.
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
  // Git decodes an ssh:// address before it looks for the host, and then asks ssh for user@host.
  const isAccepted = protocol === 'ssh' ? /^[\w.~+=,@-]+$/.test(username) : !username.includes(':')
  if (!isAccepted || username.startsWith('-')) throw refused('has a user that is not accepted')
  return {
    username: new Sensitive(username),
    password: password === undefined ? undefined : new Sensitive(password),
  }
}

function assertPath(protocol: Protocol, path: string): void {
  if (/^\/*$/.test(path)) throw refused('has no path')
  // With "/" as it is in a password, its end would count as the path, and be shown.
  if (path.includes('@')) {
    throw refused('has "@" in its path; %40 stands for it, and %2F for "/" in a user or password')
  }
  // Git would take the host from there.
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
  const detail = `${fault}; it takes an https, http, ssh or git address, or an absolute path.`
  return new Problem('invalid_request', `/source ${detail}`, {
    errors: [{ pointer: '/source', detail }],
  })
}
