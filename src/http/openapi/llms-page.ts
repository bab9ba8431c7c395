import { capitalized } from '#base/format.ts'
import type { Route } from '../route.ts'

// Runners use them, and nothing else does.
const optionalTags = new Set(['runners'])

/**
 * Creates /llms.txt: what this service is, and how to use it, for language models. The format is that of
 * https://llmstxt.org/: a title, a summary, and lists of links, of which those below "Optional" can be left out.
 */
export function toLlmsPage(routes: Route[], origin: string): string {
  const shown = routes.filter(({ kind }) => kind === 'json')
  const isOptional = ({ tag }: Route) => optionalTags.has(tag)
  const tags = [...new Set(shown.filter((route) => !isOptional(route)).map(({ tag }) => tag))]
  const sections = tags.map((tag) =>
    section(
      capitalized(tag),
      shown.filter((route) => route.tag === tag),
      origin,
    ),
  )
  return `# svc

> Hosts Git repositories for people, automation and agents, at ${origin}: Git over HTTP and SSH, a JSON API, and
> workflows in the syntax of GitHub Actions.

- Authentication: every request needs an API token, \`Authorization: Bearer svc_…\`. Git takes any user name, and the
  token as the password. Ask your user for a token; never put it into a file or an address.
- Clone: \`git clone ${origin}/repos/NAME.git\`. Push to the same address. \`GET /repos/NAME\` has the address for SSH.
- A new repository: \`POST /repos\` with \`{"name": "NAME"}\`, then push to it.
- Errors are \`application/problem+json\` with a stable \`code\` and a \`detail\` that says what to do.
- Lists have pages: \`limit\`, and a \`Link\` header with the address of the next page.
- MCP: ${origin}/mcp, streamable HTTP with the same token, has tools for most of this.

## Documentation

- [OpenAPI](${origin}/openapi.json): every operation with its parameters, fields, permissions and errors
- [API reference](${origin}/docs): the same as a page

${sections.join('\n')}
${section('Optional', shown.filter(isOptional), origin)}`
}

function section(title: string, routes: Route[], origin: string): string {
  const lines = routes.map((route) => {
    const path = route.path.replace(/:(\w+)\*?/g, '{$1}')
    return `- [${route.method} ${path}](${origin}/docs#${anchorOf(route)}): ${route.summary}\n`
  })
  return `## ${title}\n\n${lines.join('')}`
}

/** The fragment of a route on the documentation page. */
export function anchorOf({ method, path }: Pick<Route, 'method' | 'path'>): string {
  return `${method}${path}`.replace(/[^A-Za-z]+/g, '-').toLowerCase()
}
