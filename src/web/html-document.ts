import type { Links } from './links.ts'
import { type Html, html } from './render/html.ts'
import { type StyleSheet, scripts } from './style-sheets.ts'

type HtmlDocument = {
  title: string
  isNoIndex?: boolean
  styles: StyleSheet
  to: Links
  /** Returns the address of an asset. */
  asset: (name: string) => string
  content: Html
}

/** An HTML document with a style sheet and the script of all pages. */
export function renderHtmlDocument({
  title,
  isNoIndex = false,
  styles,
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
<link rel="stylesheet" href="${asset(`${styles}.css`)}">
<script type="module" src="${asset(scripts[styles] ? `${styles}.js` : 'app.js')}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
${content}
</body>
</html>
`
}
