import { holds, isAdmin } from '#access/may.ts'
import { shellWord } from '#base/shell-word.ts'
import { copyButton, icon } from './icons.ts'
import type { Links } from './links.ts'
import type { PageContext, Tab, View } from './page.ts'
import { type Html, html } from './render/html.ts'
import { type StyleSheet, scripts } from './style-sheets.ts'

type FrameContext = Pick<
  PageContext,
  'to' | 'session' | 'caller' | 'version' | 'problem' | 'url' | 'baseUrl'
> & {
  asset: (name: string) => string
}

/** Puts a page into the frame that all pages have. */
export function renderFrame(view: View, context: FrameContext): Html {
  const { to, session, version, asset } = context
  const { title, repository, body, isNoIndex = false, styles = 'base' } = view
  const { live = defaultStream(view, context) } = view
  const content = html`<header class="top">
<div class="frame top-row">
${crumbs(view, context)}
${session && html`<search>${searchField(view, context)}</search>`}
${session ? userMenu(context) : !isOfLogin(context) && html`<a class="button" href="${loginAddress(context)}">Log in</a>`}
</div>
${repository !== undefined && tabs(repository, view.tab, context)}
</header>
<main class="frame" id="content" tabindex="-1"${live !== '' && html` data-live="${live}"`}>
${body}
</main>
<footer>
<div class="frame foot">
<span>svc ${version}</span>
<nav aria-label="Service">
${view.json !== undefined && jsonCommand(view.json, context)}
<a href="${to.api('/docs')}">API</a>
${session && html`<a href="${to.own('events')}">Events</a> <a href="${to.own('keys')}">Keys</a> <a href="${to.own('tokens')}">Tokens</a>`}
</nav>
</div>
</footer>`
  return renderHtmlDocument({ title, isNoIndex, styles, to, asset, content })
}

/** The command that prints what a page shows as JSON: a browser has no token for the API. */
function jsonCommand(path: string, { baseUrl }: FrameContext): Html {
  const command = `curl -H "Authorization: Bearer $SVC_TOKEN" ${shellWord(baseUrl + path)}`
  return html`<details class="as-json"><summary>This as JSON</summary><p class="copy-field"><code>${command}</code>${copyButton()}</p></details>`
}

function isOfLogin({ url }: FrameContext): boolean {
  return /^\/-\/(?:login|logged-out)(?:[/?]|$)/.test(url)
}

function loginAddress({ to, url }: FrameContext): string {
  const isElsewhere = url !== '/' && !url.startsWith('/-/')
  return to.own(isElsewhere ? `login?${new URLSearchParams({ next: url })}` : 'login')
}

/** The stream of the pushes to the repository of a page. */
function defaultStream({ repository, status = 200 }: View, { to, session }: FrameContext): string {
  return repository === undefined || !session || status !== 200
    ? ''
    : to.eventStream({ repository, kind: 'push' })
}

function crumbs({ repository, crumbs: given = [] }: View, { to }: FrameContext): Html {
  const all = [
    ...(repository === undefined ? [] : [{ text: repository, href: to.repository(repository) }]),
    ...given,
  ]
  return html`<nav class="crumbs" aria-label="Path"><ol>
<li><a class="brand" href="${to.home()}">${icon('mark')}svc</a></li>
${all.map(
  ({ text, href }, index) =>
    html`<li>${
      href === undefined
        ? html`<span${index === all.length - 1 && html` aria-current="page"`}>${text}</span>`
        : html`<a href="${href}"${index === all.length - 1 && html` aria-current="page"`}>${text}</a>`
    }</li>`,
)}
</ol></nav>`
}

function searchField({ repository }: View, { to }: FrameContext): Html {
  const label = repository === undefined ? 'Search repositories' : `Search in ${repository}`
  const action = repository === undefined ? to.home() : to.of(repository, 'search')
  return html`<form class="search" action="${action}" role="search">${icon('search')}<input type="search" name="q" aria-label="${label}" placeholder="${label}" maxlength="200" data-key="/"></form>`
}

function userMenu({ to, caller }: FrameContext): Html {
  const initial = [...caller.username][0]?.toUpperCase() ?? '?'
  return html`<details class="menu"><summary aria-label="Menu of ${caller.username}"><span class="avatar">${initial}</span></summary>
<div class="menu-list">
<p>${caller.username}</p>
<ul>
<li><a href="${to.own('namespaces')}">Namespaces</a></li>
<li><a href="${to.own('keys')}">SSH keys</a></li>
<li><a href="${to.own('tokens')}">Tokens</a></li>
<li><a href="${to.own('sessions')}">Sessions</a></li>
<li><a href="${to.own('events')}">Events</a></li>
<li><a href="${to.own('deleted')}">Deleted repositories</a></li>
${
  isAdmin(caller) &&
  html`<li><a href="${to.own('users')}">Users</a></li>
<li><a href="${to.own('trust-rules')}">Trust rules</a></li>
<li><a href="${to.own('audit')}">Audit log</a></li>`
}
</ul>
<form method="post" action="${to.own('logout')}"><button>Log out</button></form>
</div></details>`
}

const tabList: {
  tab: Tab
  text: string
  path: string
  permission?: 'workflow:read' | 'webhook:read'
  isForMembers?: boolean
}[] = [
  { tab: 'code', text: 'Code', path: '' },
  { tab: 'commits', text: 'Commits', path: 'log' },
  { tab: 'changes', text: 'Changes', path: 'changes', isForMembers: true },
  { tab: 'branches', text: 'Branches', path: 'branches' },
  { tab: 'tags', text: 'Tags', path: 'tags' },
  { tab: 'pushes', text: 'Pushes', path: 'pushes', isForMembers: true },
  { tab: 'runs', text: 'Runs', path: 'runs', permission: 'workflow:read' },
  { tab: 'webhooks', text: 'Webhooks', path: 'webhooks', permission: 'webhook:read' },
  { tab: 'settings', text: 'Settings', path: 'settings', isForMembers: true },
]

function tabs(
  repository: string,
  current: Tab | undefined,
  { to, caller, session }: FrameContext,
): Html {
  const visible = tabList.filter(
    ({ permission, isForMembers }) =>
      (permission === undefined || holds(caller, permission)) &&
      (!isForMembers || session !== undefined),
  )
  return html`<nav class="tabs" aria-label="Repository"><div class="frame"><ul>
${visible.map(
  ({ tab, text, path }) =>
    html`<li><a href="${path === '' ? to.repository(repository) : to.of(repository, path)}"${tab === current && html` aria-current="page"`}>${text}</a></li>`,
)}
</ul></div></nav>`
}

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
