import { FilterXSS } from 'xss'
import {
  type DocumentPlace,
  hostOf,
  namePrefix,
  resolveImage,
  resolveLink,
} from './document-links.ts'
import { escapeHtml } from './html.ts'

/** The elements of a document, and their attributes besides `id`. Without SVG, MathML and raw text there is no mutation. */
const elements: Record<string, readonly string[]> = {
  a: ['href', 'title', 'name'],
  abbr: ['title'],
  blockquote: ['class'],
  br: [],
  code: ['class'],
  del: [],
  details: ['open'],
  div: ['align'],
  dl: [],
  dd: [],
  dt: [],
  em: [],
  figure: [],
  figcaption: [],
  hr: [],
  img: ['src', 'alt', 'title', 'width', 'height', 'align'],
  ins: [],
  kbd: [],
  li: ['value'],
  ol: ['start'],
  p: ['align'],
  pre: [],
  q: [],
  samp: [],
  span: ['class', 'title'],
  strong: [],
  sub: [],
  summary: [],
  sup: [],
  table: [],
  tbody: [],
  td: ['align', 'colspan', 'rowspan'],
  tfoot: [],
  th: ['align', 'colspan', 'rowspan'],
  thead: [],
  tr: [],
  ul: [],
  var: [],
  ...Object.fromEntries(['b', 'i', 's', 'u', 'small', 'mark', 'tt', 'strike'].map((n) => [n, []])),
  ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((level) => [`h${level}`, ['align']])),
}
/** HTML, section 13.1.2: elements without content and closing tag. */
const voidElements = new Set(['br', 'hr', 'img'])
/** Left out with their content; of all other unknown elements the content stays. */
const removedWithContent = [
  'script',
  'style',
  'textarea',
  'title',
  'iframe',
  'object',
  'svg',
  'math',
]
const attribute = /([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+)))?/g
const tagMaxLength = 10_000
/** Elements nested deeper are left out: browsers do not nest deeper either. */
const maxDepth = 200

/** The accepted values of attributes. */
const valuePatterns: Record<string, RegExp> = {
  align: /^(left|right|center)$/i,
  class:
    /^(h-[\w-]+( [\w-]+)*|language-[\w+#.-]{1,40}|unseen|alert-(note|tip|important|warning|caution))$/,
  colspan: /^\d{1,3}$/,
  height: /^\d{1,4}%?$/,
  rowspan: /^\d{1,3}$/,
  start: /^\d{1,9}$/,
  value: /^\d{1,9}$/,
  width: /^\d{1,4}%?$/,
}

type Options = {
  place: DocumentPlace
  /** Decodes the character references of an attribute. */
  decode: (text: string) => string
}

/**
 * Leaves of HTML what a document may have, and balances its elements, so that nothing of it can be outside of its place.
 * Headings start at level 2, since a page has a heading of its own, and skip no level.
 */
export function sanitize(html: string, { place, decode }: Options): string {
  const open: { tag: string; close: string }[] = []
  const openByTag = new Map<string, number>()
  const names = new Set<string>()
  let level = 1

  function count(tag: string, change: number): void {
    openByTag.set(tag, (openByTag.get(tag) ?? 0) + change)
  }

  function openElement(tag: string, close: string): void {
    open.push({ tag, close })
    count(tag, 1)
  }

  /** Closes an element and all within it; empty if none is open. */
  function closeElement(tag: string): string {
    if (!openByTag.get(tag)) return ''
    let closed = ''
    for (let last = open.pop(); last; last = open.pop()) {
      count(last.tag, -1)
      closed += last.close
      if (last.tag === tag) break
    }
    return closed
  }

  function attributesOf(tag: string, source: string): Map<string, string> {
    const found = new Map<string, string>()
    const text = source.replace(/^<[^\s/>]*/, '').slice(0, tagMaxLength)
    for (const [, name = '', double, single, bare] of text.matchAll(attribute)) {
      const key = name.toLowerCase()
      if (!found.has(key) && (key === 'id' || elements[tag]?.includes(key)))
        found.set(key, decode(double ?? single ?? bare ?? ''))
    }
    return found
  }

  function toId(name: string | undefined): string {
    if (name === undefined || name === '' || names.has(name)) return ''
    names.add(name)
    return ` id="${namePrefix}${escapeHtml(name)}"`
  }

  function toAttributes(attributes: Map<string, string>): string {
    let text = toId(attributes.get('id') ?? attributes.get('name'))
    for (const [name, value] of attributes) {
      if (name === 'title' || name === 'alt') text += ` ${name}="${escapeHtml(value)}"`
      else if (name === 'open') text += ' open'
      else if (valuePatterns[name]?.test(value)) text += ` ${name}="${escapeHtml(value)}"`
    }
    return text
  }

  function toImage(attributes: Map<string, string>): string {
    const alt = attributes.get('alt') ?? ''
    const target = resolveImage(attributes.get('src') ?? '', place)
    if (target === undefined) return escapeHtml(alt)
    if (!target.isRemote) {
      attributes.set('alt', alt)
      return `<img src="${escapeHtml(target.href)}" loading="lazy"${toAttributes(attributes)}>`
    }
    const at = `image at ${hostOf(target.href)}`
    const text = escapeHtml(alt === '' ? at : `${alt} (${at})`)
    return openByTag.get('a') ? text : `${toLink(target)}${text}</a>`
  }

  function toOpening(tag: string, attributes: Map<string, string>): string {
    switch (tag) {
      case 'a': {
        const closed = closeElement('a')
        const href = attributes.get('href')
        // Without an address it is an anchor.
        const target = href === undefined ? undefined : resolveLink(href, place)
        openElement('a', '</a>')
        return `${closed}${target ? toLink(target, toAttributes(attributes)) : `<a${toAttributes(attributes)}>`}`
      }
      case 'pre':
        openElement('pre', '</pre>')
        return `<pre tabindex="0"${toAttributes(attributes)}>`
      case 'table':
        openElement('table', '</table></div>')
        return `<div class="scroll" tabindex="0"><table${toAttributes(attributes)}>`
      case 'h1':
      case 'h2':
      case 'h3':
      case 'h4':
      case 'h5':
      case 'h6':
        level = Math.min(Number(tag[1]) + 1, level + 1, 6)
        openElement(tag, `</h${level}>`)
        return `<h${level}${toAttributes(attributes)}>`
      default:
        openElement(tag, `</${tag}>`)
        return `<${tag}${toAttributes(attributes)}>`
    }
  }

  const filter = new FilterXSS({
    whiteList: {},
    css: false,
    stripIgnoreTag: true,
    stripIgnoreTagBody: removedWithContent,
    onTag(tag, source, { isClosing }) {
      if (!Object.hasOwn(elements, tag)) return undefined
      if (isClosing) return voidElements.has(tag) ? '' : closeElement(tag)
      const attributes = attributesOf(tag, source)
      if (tag === 'img') return toImage(attributes)
      if (voidElements.has(tag)) return `<${tag}>`
      return open.length >= maxDepth ? '' : toOpening(tag, attributes)
    },
  })
  return filter.process(html) + open.reduceRight((closed, { close }) => closed + close, '')
}

function toLink({ href, isRemote }: { href: string; isRemote: boolean }, attributes = ''): string {
  const rel = isRemote ? ' rel="nofollow noreferrer"' : ''
  return `<a href="${escapeHtml(href)}"${rel}${attributes}>`
}
