const hidden =
  /[\u0000-\u0008\u000b-\u001f\u007f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g

/** The characters of a page that are not visible, or change the order of others. */
export function hiddenIn(html: string): string[] {
  return [...html.matchAll(hidden)].map(
    ({ 0: character, index }) =>
      `U+${character.charCodeAt(0).toString(16)} after ${JSON.stringify(html.slice(Math.max(0, index - 80), index))}`,
  )
}

/** A start tag of a page, with its attributes decoded. */
export type PageTag = { name: string; attributes: Map<string, string> }

const words = (text: string) => new Set(text.trim().split(/\s+/))

/** The elements of our templates, and of Markdown after it was sanitized. */
const elements = words(`
  html head meta title link script body a header footer main nav search section article aside div span p h1 h2 h3 h4 h5
  h6 ul ol li dl dt dd table caption colgroup col thead tbody tfoot tr th td form label input button textarea select
  datalist option optgroup fieldset legend details summary time code pre kbd samp var b strong em i u s del ins mark small sub sup
  q cite abbr blockquote br wbr hr img figure figcaption picture output progress meter data bdi bdo dfn address tt ruby rt
  rp svg g path circle ellipse rect line polyline polygon text tspan use symbol desc`)

const attributes = words(`
  id class href src action method name value type content rel lang dir charset role tabindex title datetime for required
  autofocus autocomplete spellcheck autocapitalize maxlength minlength min max step pattern rows cols size hidden open
  checked selected disabled readonly multiple colspan rowspan scope headers alt width height loading decoding start
  reversed download placeholder inputmode enterkeyhint list label span align accept enctype cite
  viewBox d cx cy r rx ry x y x1 x2 y1 y2 dx dy points transform preserveAspectRatio fill stroke text-anchor pathLength
  stroke-width textLength lengthAdjust vector-effect`)

const tagForm =
  /<(?:(\/?)([a-z][a-z0-9]*)((?:\s+[a-zA-Z_:][\w:.-]*(?:="[^"<]*")?)*)\s*(\/?)>|(!doctype html)>)/y
const attributeForm = /([a-zA-Z_:][\w:.-]*)(?:="([^"<]*)")?/g

/**
 * Reads a page strictly: anything that is not a tag in the form of our templates, with quoted attributes, is a fault. So
 * is an element or attribute that no template has, an address of another host, and a script other than ours.
 */
export function readPage(html: string): { tags: PageTag[]; faults: string[] } {
  const tags: PageTag[] = []
  const faults = hiddenIn(html)
  for (let at = html.indexOf('<'); at !== -1; at = html.indexOf('<', at)) {
    tagForm.lastIndex = at
    const found = tagForm.exec(html)
    if (!found) {
      faults.push(`not a tag: ${html.slice(at, at + 120)}`)
      at += 1
      continue
    }
    at = tagForm.lastIndex
    const [whole, end, name, rest = '', , doctype] = found
    if (doctype !== undefined || name === undefined || end === '/') continue
    const tag = { name, attributes: new Map<string, string>() }
    for (const [, attribute = '', value = ''] of rest.matchAll(attributeForm)) {
      if (tag.attributes.has(attribute)) faults.push(`twice ${attribute}: ${whole}`)
      tag.attributes.set(attribute, decode(value))
    }
    tags.push(tag)
    for (const fault of faultsOf(tag)) faults.push(`${fault}: ${whole}`)
    if (name === 'script' && !html.startsWith('</script>', at)) faults.push('a script with text')
  }
  return { tags, faults }
}

function faultsOf({ name, attributes: given }: PageTag): string[] {
  const faults: string[] = []
  if (!elements.has(name)) faults.push(`element ${name}`)
  for (const attribute of given.keys()) {
    if (/^on/i.test(attribute)) faults.push(`handler ${attribute}`)
    const isKnown = attributes.has(attribute) || /^(?:aria|data)-[a-z-]+$/.test(attribute)
    if (!isKnown) faults.push(`attribute ${attribute}`)
  }
  for (const attribute of ['src', 'href', 'action']) {
    const address = given.get(attribute)
    if (address !== undefined && !isOwn(address) && !isPlainLink(name, attribute, address, given))
      faults.push(`address ${address}`)
  }
  if (name === 'script' && !/^\/-\/assets\/[\w-]{16}\/[a-z]+\.js$/.test(given.get('src') ?? ''))
    faults.push('a script')
  if (name === 'meta' && given.has('http-equiv')) faults.push('http-equiv')
  return faults
}

/** A path, a query or a fragment of this server, as browsers read it. */
function isOwn(address: string): boolean {
  if (/^[#?]/.test(address)) return true
  const base = 'http://own.invalid'
  return /^\//.test(address) && URL.parse(address, base)?.origin === base
}

function isPlainLink(
  name: string,
  attribute: string,
  address: string,
  given: Map<string, string>,
): boolean {
  if (name !== 'a' || attribute !== 'href') return false
  if (!/^(?:https?:\/\/|mailto:)/.test(address)) return false
  const rel = words(given.get('rel') ?? '')
  return rel.has('nofollow') && rel.has('noreferrer')
}

const named: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"' }

export function decode(text: string): string {
  return text.replace(/&(?:#(\d+)|#x([\da-f]+)|(amp|lt|gt|quot));/gi, (_, decimal, hex, name) => {
    if (name !== undefined) return named[name.toLowerCase()] ?? ''
    return String.fromCodePoint(Number.parseInt(decimal ?? hex, decimal ? 10 : 16))
  })
}
