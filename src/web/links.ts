import type { ApiPath } from '#browse/api-path.ts'

export type Links = ReturnType<typeof createLinks>

/** A path in a repository as the API has it. */
type Path = ApiPath | string

/** Creates the addresses of pages. All links are made here, since the service may be below a path of its host. */
export function createLinks(prefix: string) {
  const repository = (name: string) => `${prefix}/r/${encodeSegments(name)}`
  const at = (kind: string) => (name: string, rev: string, path?: Path) =>
    `${repository(name)}/${kind}/${target(rev, path)}`
  return {
    prefix,
    home: () => `${prefix}/`,
    /** A page that belongs to no repository. */
    own: (path: string) => `${prefix}/-/${path}`,
    namespace: (name: string) => `${prefix}/-/namespaces/${encodeURIComponent(name)}`,
    /** The stream of the events of a repository, or of all. */
    eventStream: (query: { repository?: string; kind?: string; after?: string }) =>
      `${prefix}/-/events/stream?${new URLSearchParams(query)}`,
    /** An address of the API. */
    api: (path: string) => `${prefix}${path}`,
    repository,
    /** A page of a repository, such as `runs/12`. */
    of: (name: string, path: string) => `${repository(name)}/${path}`,
    src: at('src'),
    raw: at('raw'),
    log: at('log'),
    feed: (name: string, rev: string) => `${repository(name)}/log/${encodeRevision(rev)}.atom`,
    blame: at('blame'),
    edit: at('edit'),
    /** The form of a new file in a folder. */
    newFile: at('new'),
    delete: at('delete'),
    commit: (name: string, id: string) => `${repository(name)}/commit/${id}`,
    compare: (name: string, base: string, head: string) =>
      `${repository(name)}/compare/${encodeRevision(base)}...${encodeRevision(head)}`,
    /** Compares a revision with the default branch. */
    compareFrom: (name: string, head: string) =>
      `${repository(name)}/compare?${new URLSearchParams({ head })}`,
    search: (name: string, q: string) => `${repository(name)}/search?${new URLSearchParams({ q })}`,
  }
}

/** `<rev>:<path>` as Git writes it. No ref can contain a colon, so the first one ends the revision. */
function target(rev: string, path: Path | undefined): string {
  const text = path === undefined || path === '' ? '' : encodePath(path)
  return text === '' ? encodeRevision(rev) : `${encodeRevision(rev)}:${text}`
}

/**
 * Encodes a revision for an address; its slashes stay. At the end of an address `.atom` and `.diff` are formats, so the dot
 * of such a name is encoded.
 */
export function encodeRevision(rev: string): string {
  return encodeSegments(rev).replace(/\.(?=(?:atom|diff)$)/, '%2E')
}

function encodeSegments(text: string): string {
  // Most revisions and paths.
  if (/^[\w/.~-]*$/.test(text)) return text
  return text.split('/').map(encodeURIComponent).join('/')
}

function encodePath(path: Path): string {
  if (typeof path === 'string') return encodeSegments(path)
  if (path.pathBase64 === undefined) return encodeSegments(path.path)
  return encodeBytes(Buffer.from(path.pathBase64, 'base64'))
}

/** Percent-encodes bytes that are not UTF-8. */
function encodeBytes(bytes: Buffer): string {
  return [...bytes]
    .map((byte) => {
      const character = String.fromCharCode(byte)
      const isPlain = /[\w/.~-]/.test(character)
      return isPlain ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
    })
    .join('')
}

/** A revision and a path in an address. */
export type PageTarget = { rev: string; path: ApiPath }

/** Parses the `<rev>:<path>` of an address; undefined if its percent-encoding or the revision is malformed. */
export function parseTarget(encoded: string): PageTarget | undefined {
  const bytes = decodeBytes(encoded)
  if (bytes === undefined) return undefined
  const colon = bytes.indexOf(':')
  const rev = decodeUtf8(colon === -1 ? bytes : bytes.subarray(0, colon))
  if (rev === undefined || rev === '') return undefined
  const rawPath = colon === -1 ? Buffer.alloc(0) : bytes.subarray(colon + 1)
  const path = decodeUtf8(rawPath)
  if (path !== undefined) return { rev, path: { path } }
  return { rev, path: { path: rawPath.toString('utf8'), pathBase64: rawPath.toString('base64') } }
}

function decodeBytes(encoded: string): Buffer | undefined {
  if (/%(?![0-9A-Fa-f]{2})/.test(encoded)) return undefined
  return Buffer.from(
    encoded.replace(/%([0-9A-Fa-f]{2})/g, (_, digits) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    ),
    'latin1',
  )
}

function decodeUtf8(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}
