/** Where a document is: what its relative links and images are resolved against. */
export type DocumentPlace = {
  /** The addresses of pages and of files of its revision, before `:<path>`. */
  src: string
  raw: string
  /** The path of its folder, without a slash at the end. */
  folder: string
}

type Target = { href: string; isRemote: boolean }

/** Resolves the address of a link; undefined for one that pages do not link to. */
export function resolveLink(address: string, place: DocumentPlace): Target | undefined {
  const url = withoutControls(address)
  const scheme = schemeOf(url)
  if (scheme === 'mailto') return { href: url, isRemote: true }
  if (scheme !== undefined || url.startsWith('//')) return remote(url, scheme)
  if (url.startsWith('#'))
    return url === '#' ? undefined : { href: toFragment(url), isRemote: false }
  const { path, fragment } = splitAddress(url)
  const found = toPath(path, place.folder)
  if (found === undefined) return undefined
  const base = found === '' ? place.src : `${place.src}:${found}`
  return { href: base + toFragment(fragment), isRemote: false }
}

/** Resolves the address of an image. Images of other hosts are `isRemote`: a page does not load them. */
export function resolveImage(address: string, place: DocumentPlace): Target | undefined {
  const url = withoutControls(address)
  const scheme = schemeOf(url)
  if (scheme !== undefined || url.startsWith('//')) return remote(url, scheme)
  const found = toPath(splitAddress(url).path, place.folder)
  return found === undefined || found === ''
    ? undefined
    : { href: `${place.raw}:${found}`, isRemote: false }
}

/** The host of the address of a remote image. */
export function hostOf(href: string): string {
  return URL.parse(href)?.host ?? ''
}

/** As browsers do, before they look at an address: URL Standard, section 4.4. */
function withoutControls(address: string): string {
  let end = address.length
  while (end > 0 && address.charCodeAt(end - 1) <= 0x20) end--
  return address
    .slice(0, end)
    .replace(/^[\0-\x20]+/, '')
    .replace(/[\t\n\r]/g, '')
}

/** The scheme of an address in lower case; undefined for a relative one. */
function schemeOf(url: string): string | undefined {
  const [, scheme] = /^([^/?#:]*):/.exec(url) ?? []
  return scheme?.toLowerCase()
}

/** Whether browsers read another host in an address than people and Git do: `http://other\\@host`, where they end it. */
export function hasMisreadHost(url: string): boolean {
  const [authority = ''] = /^[/\\]*[^/?#]*/.exec(url.replace(/^[^/?#:]*:/, '')) ?? []
  return authority.includes('\\')
}

function remote(url: string, scheme: string | undefined): Target | undefined {
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') return undefined
  if (hasMisreadHost(url)) return undefined
  const parsed = URL.parse(scheme === undefined ? `https:${url}` : url)
  return parsed ? { href: parsed.href, isRemote: true } : undefined
}

function splitAddress(url: string): { path: string; fragment: string } {
  const [path = ''] = url.split(/[?#]/, 1)
  const hash = url.indexOf('#')
  return { path, fragment: hash === -1 ? '' : url.slice(hash) }
}

/** Names of a document cannot be those of the page around it, except for lines of files. */
function toFragment(fragment: string): string {
  if (fragment.length < 2) return ''
  return /^#L\d+(-L\d+)?$/.test(fragment) ? fragment : `#${namePrefix}${fragment.slice(1)}`
}

export const namePrefix = 'u-'

/** The percent-encoded path in the repository; undefined for one outside of it. */
function toPath(path: string, folder: string): string | undefined {
  const decoded = decode(path)
  if (decoded === undefined) return undefined
  const parts = decoded.startsWith('/') || folder === '' ? [] : folder.split('/')
  for (const name of decoded.split('/')) {
    if (name === '' || name === '.') continue
    if (name !== '..') parts.push(name)
    else if (parts.pop() === undefined) return undefined
  }
  return parts.map((name) => encodeURIComponent(name.toWellFormed())).join('/')
}

function decode(path: string): string | undefined {
  try {
    return decodeURIComponent(path)
  } catch {
    return undefined
  }
}
