import { RawResponse } from '../page.ts'
import { type Html, trusted } from '../render/html.ts'
import { namesCommit } from './audience.ts'

// The longest matching rule counts: RFC 9309, section 2.2.2.
const closed = ['Disallow: /']
const open = [
  'Disallow: /',
  'Allow: /$',
  'Allow: /favicon.svg',
  'Allow: /-/assets/',
  // Repositories and the files of their branches: one page each, and no history, diffs or searches.
  'Allow: /r/',
  'Disallow: /r/*/',
  'Allow: /r/*/src/',
  'Disallow: /r/*?',
]

/** `robots.txt`, which names no repository; `hasPages` if those of some are open without a login. */
export function robotsText(hasPages: boolean, prefix: string) {
  const rules = hasPages ? open : closed
  const lines = rules.map((rule) => rule.replace(': /', `: ${prefix}/`))
  const text = ['User-agent: *', ...lines, ''].join('\n')
  return new RawResponse('text/plain; charset=utf-8', text, {
    'cache-control': 'public, max-age=3600',
  })
}

/** Adds `rel="nofollow"` to the links of a page that search engines must not follow: they cost more than they show. */
export function withNofollow({ text }: Html, prefix: string): Html {
  return trusted(
    text.replace(/<a\s[^<>]*>/g, (tag) => {
      const address = attributeOf(tag, 'href')
      const isOwn = address.startsWith('?') || address.startsWith(`${prefix}/`)
      if (!isOwn || isForRobots(address, prefix)) return tag
      const relations = attributeOf(tag, 'rel')
      if (relations.includes('nofollow')) return tag
      if (relations === '') return `${tag.slice(0, -1)} rel="nofollow">`
      return tag.replace(` rel="${relations}"`, ` rel="${relations} nofollow"`)
    }),
  )
}

function attributeOf(tag: string, attribute: string): string {
  const name = ` ${attribute}="`
  const start = tag.indexOf(name)
  if (start === -1) return ''
  return tag.slice(start + name.length, tag.indexOf('"', start + name.length))
}

/** Whether an address is one that `robots.txt` allows, and shows no commit by its id. */
function isForRobots(address: string, prefix: string): boolean {
  if (address.includes('?')) return false
  const [path = ''] = address.slice(prefix.length).split('#', 1)
  if (path === '/' || /^\/r\/[^/]+$/.test(path)) return true
  const [, target] = /^\/r\/(?:[^/]+\/){1,2}src\/(.+)$/.exec(path) ?? []
  return target !== undefined && !namesCommit({ params: { target } })
}
