import { problems } from '../base/problem.ts'
import { problemsOf } from './openapi.ts'
import { statuses } from './problem-response.ts'
import type { Route } from './route.ts'

/** Creates the documentation page, with every route and every problem. It loads no other resources. */
export function toDocsPage(routes: Route[], version: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>svc API</title>
<style>${style}</style>
</head>
<body>
<header>
<h1>svc API <small>${escapeHtml(version)}</small></h1>
<p>Hosts Git repositories for people, automation and agents. Send an API token with every request:
<code>Authorization: Bearer svc_…</code>; with Git, use any user name and the token as the password.
Machine-readable: <a href="/openapi.json">openapi.json</a> (OpenAPI 3.1).</p>
</header>
<nav><h2>Routes</h2><ul>${routes.map(toEntry).join('')}<li><a href="#problems">Problems</a></li></ul></nav>
<main>
${routes.map(toSection).join('\n')}
<section id="problems"><h2>Problems</h2>
<p>Errors are <code>application/problem+json</code> (RFC 9457) with <code>type</code>, <code>title</code>, <code>status</code>,
<code>detail</code>, a stable <code>code</code>, and for invalid fields <code>errors: [{pointer, detail}]</code>. Git's routes
return only the detail, as plain text, which Git shows to its user.</p>
<div class="scroll"><table><thead><tr><th>code</th><th>status</th><th>meaning</th></tr></thead><tbody>${problemRows()}</tbody></table></div>
</section>
</main>
</body>
</html>
`
}

const style = `
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--link:light-dark(#0550ae,#79b8ff)}
*{box-sizing:border-box}
body{font:16px/1.55 system-ui,sans-serif;max-width:64rem;margin:0 auto;padding:1.5rem}
h1 small{font-weight:400;font-size:1rem;opacity:.7}
h2{font-size:1.1rem;margin:0 0 .4rem}
a{color:var(--link)}
code{font:.9em ui-monospace,monospace;background:var(--soft);padding:.1em .3em;border-radius:3px;overflow-wrap:anywhere}
nav ul{columns:2 22rem;padding:0;list-style:none}
nav a{text-decoration:none;font:.85rem ui-monospace,monospace}
section{border-top:1px solid var(--line);padding:1.2rem 0}
section:target{background:var(--soft)}
.method{display:inline-block;min-width:4.2rem;font-weight:700}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
td,th{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line)}
tr:target{background:var(--soft)}
td:first-child code{white-space:nowrap}
dt{font-weight:600;margin-top:.6rem}dd{margin:0}
`

function toEntry(route: Route): string {
  const label = `<span class="method">${route.method}</span>${escapeHtml(shown(route.path))}`
  return `<li><a href="#${anchorOf(route)}">${label}</a></li>`
}

function toSection(route: Route): string {
  const description = route.description ? `<p>${toInline(route.description)}</p>` : ''
  return `<section id="${anchorOf(route)}">
<h2><span class="method">${route.method}</span><code>${escapeHtml(shown(route.path))}</code></h2>
<p>${toInline(route.summary)}.</p>${description}
<dl><dt>Requires</dt><dd>${needs(route)}</dd>
${fields('Query', route.kind === 'json' ? route.query : undefined)}
${fields('Body', route.kind === 'json' ? route.body : undefined)}
${toResponse(route)}
<dt>Problems</dt><dd>${problemLinks(route)}</dd></dl>
</section>`
}

function needs(route: Route): string {
  if (route.kind === 'public') return 'nothing'
  if (route.kind === 'json')
    return route.permission ? `the permission <code>${route.permission}</code>` : 'any token'
  return '<code>repo:read</code> to fetch, <code>repo:write</code> to push'
}

function toResponse(route: Route): string {
  if (route.produces === undefined) return ''
  const status = route.kind === 'json' ? route.status : 200
  if (route.kind === 'json' && !route.reply) return `<dt>Response ${status}</dt><dd>no body</dd>`
  const schema: Described = (route.kind !== 'stream' && route.reply) || {}
  if (schema.items) return fields(`Response ${status}, an array of`, schema.items)
  if (schema.properties) return fields(`Response ${status}`, schema)
  const produces = route.kind === 'json' ? '' : route.produces
  return `<dt>Response ${status}</dt><dd><code>${escapeHtml(produces)}</code></dd>`
}

type Described = {
  type?: string | string[]
  description?: string
  properties?: Record<string, Described>
  required?: string[]
  items?: Described
}

function fields(label: string, schema: object | undefined): string {
  const { properties, required = [] } = (schema ?? {}) as Described
  if (!properties) return ''
  const isResponse = label.startsWith('Response')
  const rows = Object.entries(properties).map(([name, field]) => {
    const optional = required.includes(name) || isResponse ? '' : ' <small>optional</small>'
    return `<tr><td><code>${escapeHtml(name)}</code>${optional}</td><td>${escapeHtml(typeName(field))}</td><td>${toInline(field.description ?? '')}</td></tr>`
  })
  return `<dt>${label}</dt><dd class="scroll"><table><tbody>${rows.join('')}</tbody></table></dd>`
}

function typeName({ type, items }: Described): string {
  const name = [type ?? ''].flat().join(' or ')
  return items?.type ? `${name} of ${items.type}` : name
}

function problemLinks(route: Route): string {
  const codes = problemsOf(route)
  if (codes.length === 0) return 'none'
  return codes.map((code) => `<a href="#${code}"><code>${code}</code></a>`).join(' ')
}

function problemRows(): string {
  return Object.entries(problems)
    .map(
      ([code, { kind, title }]) =>
        `<tr id="${code}"><td><code>${code}</code></td><td>${statuses[kind]}</td><td>${escapeHtml(title)}</td></tr>`,
    )
    .join('')
}

function shown(path: string): string {
  return path.replace(/\*$/, '')
}

/** The fragment of a route on the page. */
export function anchorOf({ method, path }: Route): string {
  return `${method}${path}`.replace(/[^A-Za-z]+/g, '-').toLowerCase()
}

function toInline(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>')
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
