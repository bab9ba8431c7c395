import { shellWord } from '#base/shell-word.ts'
import type { JsonRoute, PublicRoute, StreamRoute } from '#http/route.ts'
import { type JsonSchema, mainOf } from './schema-fields.ts'

type AnyRoute = JsonRoute | PublicRoute | StreamRoute

/** Values of parameters and fields in examples, by their names. */
const samples: Record<string, unknown> = {
  name: 'site',
  branch: 'main',
  commit: '60e19c2d4f1b7a8e3c5d9f0a1b2c3d4e5f607182',
  commits: '60e19c2d4f1b7a8e3c5d9f0a1b2c3d4e5f607182',
  defaultBranch: 'main',
  base: 'main',
  head: 'feature',
  rev: 'main',
  pattern: 'release/*',
  username: 'grace',
  number: '12',
  run: '12',
  secretName: 'DEPLOY_KEY',
  path: 'README.md',
  q: 'retry',
  ref: 'refs/heads/main',
  target: 'main',
  url: 'https://example.com/hook',
  source: 'https://example.com/project.git',
  message: 'Correct the title',
  content: '# Site\n',
  publicKey: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample ada@laptop',
  workflow: '.svc/workflows/ci.yml',
  file: '.svc/workflows/ci.yml',
  events: ['push'],
  workspaces: ['01m80a4cjsapny25yjrgq3p11m'],
  removed: [],
  data: 'bHMK',
  permissions: ['repo:read'],
  value: 'the value',
  secret: 'a secret of 16 characters or more',
  id: '01m8713c9sw4hgzjdxhf9b4gfm',
  jsonrpc: '2.0',
  method: 'tools/list',
  action: 'push',
}

/** A command for curl that sends a request to the route. */
export function curlExample(route: AnyRoute, origin: string): string {
  const query =
    route.kind === 'json' ? queryOf(route) : route.kind === 'stream' ? streamQuery(route) : ''
  const url = origin + pathOf(route.path) + query
  const words = ['curl', '-sS']
  if (route.method !== 'GET') words.push('-X', route.method)
  words.push(shellWord(url))
  if (route.kind === 'json') words.push('-H', '"Authorization: Bearer $SVC_TOKEN"')
  if (route.kind === 'stream') words.push('-u', '"git:$SVC_TOKEN"')
  if (route.kind === 'public' && route.form)
    return `${words.join(' ')} \\\n  ${formWords(route.form as JsonSchema).join(' \\\n  ')}`
  const body =
    route.kind === 'json' && route.body ? sampleOf(route.body as JsonSchema, '') : undefined
  if (body === undefined) return words.join(' ')
  return `${words.join(' ')} \\\n  -H 'Content-Type: application/json' -d ${shellWord(JSON.stringify(body))}`
}

function formWords({ properties = {} }: JsonSchema): string[] {
  return Object.entries(properties).map(([name, schema]) => {
    const { const: fixed, enum: [first] = [] } = schema as { const?: string; enum?: string[] }
    const value = fixed ?? first
    return `--data-urlencode ${value === undefined ? `"${name}=$${name.toUpperCase()}"` : shellWord(`${name}=${value}`)}`
  })
}

/** A command of `svc` that does the same, with the arguments that it takes. */
export function commandExample({ command, arguments: names = [] }: DocumentedCommand): string {
  const words = names
    .filter((name) => !name.startsWith('['))
    .map((name) => shellWord(String(commandSamples[name] ?? samples[name] ?? name)))
  return ['svc', command, ...words].join(' ')
}

/** A command of the client, as far as the documentation shows it. */
export type DocumentedCommand = { command: string; operations: string[]; arguments?: string[] }

const commandSamples: Record<string, string> = {
  repository: 'site',
  name: 'site',
  text: 'retry',
  path: 'README.md',
  url: 'https://example.com/hook',
  revision: 'main',
}

function pathOf(path: string): string {
  return path.replace(/:(\w+)\*?/g, (_, name) =>
    encodeURIComponent(String(samples[name] ?? samples.id)),
  )
}

function queryOf({ query }: JsonRoute): string {
  const { properties = {}, required = [] } = (query ?? {}) as JsonSchema
  const pairs = Object.entries(properties)
    .filter(([name]) => required.includes(name))
    .map(([name, schema]): [string, string] => [
      name,
      String(samples[name] ?? sampleOf(schema, name)),
    ])
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`
}

function streamQuery({ parameters }: StreamRoute): string {
  return parameters.includes('service') ? '?service=git-upload-pack' : ''
}

/** A value that a schema accepts: of an object, its required fields, or the first one if there are none. */
function sampleOf(schema: JsonSchema, name: string): unknown {
  const main = mainOf(schema)
  const { type, const: constant, enum: values, properties, required = [], items, minimum } = main
  const [example] = main.examples ?? []
  if (example !== undefined) return example
  if (constant !== undefined) return constant
  if (properties) {
    const known = required.length > 0 ? required : Object.keys(properties).slice(0, 1)
    return Object.fromEntries(known.map((key) => [key, sampleOf(properties[key] ?? {}, key)]))
  }
  const sample = samples[name]
  if (sample !== undefined && typeof sample !== 'object' && !values) return sample
  if (values) return values[0]
  switch ([type].flat()[0]) {
    case 'array':
      return Array.isArray(sample) ? sample : items ? [sampleOf(items, name.replace(/s$/, ''))] : []
    case 'integer':
    case 'number':
      return minimum ?? 1
    case 'boolean':
      return true
    case 'object':
      return {}
    default:
      return 'text'
  }
}
