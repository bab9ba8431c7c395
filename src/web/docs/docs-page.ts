import { capitalized } from '#base/format.ts'
import { type ProblemCode, problems } from '#base/problem.ts'
import { anchorOf } from '#http/openapi/llms-page.ts'
import { problemsOf, usualProblems } from '#http/openapi/openapi.ts'
import { statuses } from '#http/problem-response.ts'
import type { Route } from '#http/route.ts'
import { createAssets } from '../assets.ts'
import { renderHtmlDocument } from '../frame.ts'
import { copyButton, icon } from '../icons.ts'
import { createLinks } from '../links.ts'
import { type Html, html } from '../render/html.ts'
import { commandExample, curlExample, type DocumentedCommand } from './examples.ts'
import { fieldsOf, type SchemaField, typeOf } from './schema-fields.ts'

type Options = {
  routes: Route[]
  version: string
  /** The public address of the service. */
  origin: string
  commands: readonly DocumentedCommand[]
}

/** Descriptions of the resources, by the tags of their routes, in the order of the page. */
const resources: Record<string, string> = {
  service: 'Health, and the descriptions of this API.',
  repositories: 'Create, import, change, delete and restore repositories.',
  browse: 'Read files, history, diffs and archives without a clone.',
  writing: 'Make commits and merges, and move refs, without a clone. Each is a push.',
  git: 'The protocol of Git over HTTP. The address of a repository is its clone URL.',
  pushes: 'The journal of pushes. A push can be undone.',
  protections: 'Rules for branches and tags.',
  collaborators: 'Who else may use a repository, and in which role.',
  secrets: 'Values for workflow runs, stored encrypted. They cannot be read back.',
  'workflow runs': 'Start, follow, cancel and repeat runs.',
  webhooks: 'Signed requests to other services, with the history of their deliveries.',
  events: 'Everything that happened, in order; as a list or as a stream.',
  tokens: 'API tokens, their permissions and limits.',
  'SSH keys': 'Public keys for Git over SSH.',
  audit: 'Who changed what, from where.',
  agents: 'The MCP server, and a description for language models.',
  runners: 'The protocol of runners. Nothing else needs it.',
}

/** Creates the documentation of the API: every operation by its resource, and every problem. */
export function toDocsPage({ routes, version, origin, commands }: Options): string {
  const address = new URL(origin)
  const to = createLinks(address.pathname.replace(/\/$/, ''))
  const assets = createAssets()
  const base = address.href.replace(/\/$/, '')
  const groups = [...Map.groupBy(routes, ({ tag }) => tag)].sort(
    ([one], [other]) => rankOf(one) - rankOf(other),
  )
  const content = html`<header class="top"><div class="frame top-row">
<nav class="crumbs" aria-label="Path"><ol><li><a class="brand" href="${to.home()}">${icon('mark')}svc</a></li><li><span aria-current="page">API</span></li></ol></nav>
<search class="needs-js"><div class="search">${icon('search')}<input type="search" data-docs-filter data-key="/" aria-label="Search operations" placeholder="Search operations"></div></search>
</div></header>
<div class="frame docs">
<nav class="docs-nav" aria-label="Operations">
${groups.map(
  ([
    tag,
    own,
  ]) => html`<section data-docs-group><h2><a href="#${groupId(tag)}">${capitalized(tag)}</a></h2><ul>
${own.map(
  (route) =>
    html`<li data-docs-entry="${entryText(route)}"><a href="#${anchorOf(route)}">${route.summary}</a></li>`,
)}</ul></section>`,
)}
<section><h2><a href="#problems">Problems</a></h2></section>
<p class="docs-none soft" hidden>No operation matches.</p>
</nav>
<main id="content" tabindex="-1">
<section class="docs-intro">
<h1>API of svc <span class="count">${version}</span></h1>
<p>JSON over HTTP. Send an API token with every request; Git takes any user name, and the token as the password.</p>
<pre class="card pad" tabindex="0" aria-label="Example"><code>export SVC_TOKEN=svc_…
curl -sS ${base}/repos -H "Authorization: Bearer $SVC_TOKEN"</code></pre>
<ul class="docs-facts">
<li>Lists are whole, or have pages: <code>limit</code>, and a <code>Link</code> header to the next page.</li>
<li>Times are milliseconds since the Unix epoch. Unknown fields and parameters are refused.</li>
<li>Errors are <code>application/problem+json</code> with a stable <code>code</code>: see <a class="linked" href="#problems">Problems</a>.</li>
<li>For programs: <a class="linked" href="${to.api('/openapi.json')}">openapi.json</a> (OpenAPI 3.1). For language models: <a class="linked" href="${to.api('/llms.txt')}">llms.txt</a>, and MCP at <code>${base}/mcp</code>.</li>
</ul>
</section>
${groups.map(
  ([tag, own]) => html`<section class="docs-group" data-docs-group>
<h2 class="docs-resource" id="${groupId(tag)}">${capitalized(tag)}</h2>
<p class="soft">${resources[tag]}</p>
${own.map((route) => operation(route, base, commands))}
</section>`,
)}
${problemSection()}
</main>
</div>`
  const asset = (name: string) => assets.addressOf(to, name)
  return renderHtmlDocument({ title: 'API · svc', styles: 'docs', to, asset, content }).text
}

function rankOf(tag: string): number {
  const index = Object.keys(resources).indexOf(tag)
  return index === -1 ? Object.keys(resources).length : index
}

function operation(route: Route, base: string, commands: readonly DocumentedCommand[]): Html {
  const own = commands.filter(({ operations }) => operations.includes(route.operationId))
  const isJson = route.kind === 'json'
  return html`<article class="card docs-operation" id="${anchorOf(route)}" data-docs-entry="${entryText(route)}">
<header><h3>${route.summary}</h3><p class="docs-route"><span class="method ${route.method.toLowerCase()}">${route.method}</span> <code>${templateOf(route.path)}</code></p></header>
<div class="docs-columns">
<div class="docs-text">
${route.description !== undefined && html`<p>${inline(route.description)}</p>`}
<p class="soft">${needs(route)}</p>
${fieldTable('Parameters', isJson ? fieldsOf(route.query) : [])}
${fieldTable('Body', fieldsOf(isJson ? route.body : route.kind === 'public' ? route.form : undefined), true)}
${responseOf(route)}
${problemList(route)}
</div>
<div class="docs-examples">
${example('curl', curlExample(route, base))}
${own.slice(0, 2).map((command) => example('svc', commandExample(command)))}
</div>
</div>
</article>`
}

function problemList(route: Route): Html {
  const all = problemsOf(route)
  const own = all.filter((code) => !usualProblems.has(code))
  const usual = all.filter((code) => usualProblems.has(code))
  return html`<div class="docs-problems">${own.length > 0 && html`<p><b>Problems</b> ${own.map(problemLink)}</p>`}
${usual.length > 0 && html`<details><summary>Problems of any request <span class="soft">${usual.length}</span></summary><p>${usual.map(problemLink)}</p></details>`}</div>`
}

function problemLink(code: ProblemCode): Html {
  return html`<a href="#${code}"><code>${code}</code></a> `
}

function example(name: string, text: string): Html {
  return html`<figure><figcaption>${name}</figcaption><div class="docs-example"><pre tabindex="0" aria-label="Example for ${name}"><code>${text}</code></pre>${copyButton()}</div></figure>`
}

function needs(route: Route): Html {
  if (route.kind === 'public') return html`Needs no token.`
  if (route.kind === 'stream') {
    return html`Needs a token with <code>repo:read</code> to fetch, <code>repo:write</code> to push.`
  }
  if (route.permission === 'run') return html`Needs the token of a run, which its runner has.`
  if (route.permission === undefined) return html`Needs any token.`
  return html`Needs a token with <code>${route.permission}</code>.`
}

function responseOf(route: Route): Html | false {
  if (route.produces === undefined) return false
  const status = route.kind === 'json' ? route.status : 200
  const reply = route.kind === 'stream' ? undefined : route.reply
  if (route.kind === 'json' && reply === undefined) {
    return html`<p><b>Response ${status}</b> <span class="soft">without a body</span></p>`
  }
  const fields = fieldsOf(reply)
  if (fields.length > 0) return fieldTable(`Response ${status}`, fields)
  const type =
    reply && route.kind === 'json' && /json/.test(route.produces)
      ? typeOf(reply)
      : route.produces.split(';')[0]
  return html`<p><b>Response ${status}</b> <code>${type}</code></p>`
}

function fieldTable(caption: string, fields: SchemaField[], isInput = false): Html | false {
  if (fields.length === 0) return false
  const rows = fields.map(
    ({ name, type, description, isRequired }) => html`<tr><th scope="row"><code>${name}</code></th>
<td><span class="soft">${type}${isInput && isRequired && ', required'}</span> ${inline(capitalized(description))}</td></tr>`,
  )
  const isLong = !isInput && fields.length > 12
  const table = html`<table><caption${isLong && html` class="hidden"`}>${caption}</caption><tbody>${rows}</tbody></table>`
  if (!isLong) return table
  return html`<details><summary><b>${caption}</b> <span class="soft">${fields.length} fields</span></summary>${table}</details>`
}

function problemSection(): Html {
  return html`<section class="docs-group">
<h2 class="docs-resource" id="problems">Problems</h2>
<p class="soft">Errors are <code>application/problem+json</code> (RFC 9457) with <code>type</code>, <code>title</code>, <code>status</code>, <code>detail</code> and a stable <code>code</code>; for invalid values also <code>errors</code> with <code>pointer</code>, or <code>parameter</code> and <code>in</code>, and <code>detail</code>. Git's routes return the detail alone, as plain text, which Git shows to its user.</p>
<table class="card docs-problem-table"><caption class="hidden">Problems</caption><thead><tr><th scope="col">Code</th><th scope="col">Status</th><th scope="col">Meaning</th></tr></thead><tbody>
${Object.entries(problems).map(
  ([code, { kind, title }]) =>
    html`<tr id="${code}"><th scope="row"><code>${code}</code></th><td>${statuses[kind]}</td><td>${title}</td></tr>`,
)}
</tbody></table>
</section>`
}

/** The text of an operation that the search matches, in lower case. */
function entryText({ method, path, summary, operationId, tag }: Route): string {
  return `${method} ${templateOf(path)} ${summary} ${operationId} ${tag}`.toLowerCase()
}

function templateOf(path: string): string {
  return path.replace(/:(\w+)\*?/g, '{$1}')
}

function groupId(tag: string): string {
  return `resource-${tag.toLowerCase().replace(/[^a-z]+/g, '-')}`
}

/** Text with code between backquotes. */
function inline(text: string): Html[] {
  return text
    .split('`')
    .map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : html`${part}`))
}
