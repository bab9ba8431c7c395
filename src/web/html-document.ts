import { type Html, html } from '../render/html.ts'
import type { Links } from './links.ts'

type HtmlDocument = {
  title: string
  isNoIndex?: boolean
  to: Links
  /** Returns the address of an asset. */
  asset: (name: string) => string
  content: Html
}

/** An HTML document with the styles and the script of all pages. */
export function renderHtmlDocument({
  title,
  isNoIndex = false,
  to,
  asset,
  content,
}: HtmlDocument): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
${isNoIndex && html`<meta name="robots" content="noindex, nofollow">`}
<title>${title}</title>
<link rel="icon" href="${to.prefix}/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${asset('app.css')}">
<script type="module" src="${asset('app.js')}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
${content}
</body>
</html>
`
}
