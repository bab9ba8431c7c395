import type { PlainSettings } from '../config/settings.ts'
import { RawResponse } from './page.ts'

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

/** `robots.txt`, which names no repository. */
export function robotsText(anonymous: PlainSettings['webAnonymousRead'], prefix: string) {
  const rules = anonymous === 'off' ? closed : open
  const lines = rules.map((rule) => rule.replace(': /', `: ${prefix}/`))
  const text = ['User-agent: *', ...lines, ''].join('\n')
  return new RawResponse('text/plain; charset=utf-8', text, {
    'cache-control': 'public, max-age=3600',
  })
}
