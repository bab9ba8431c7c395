import { type HostRule, parseHostRule } from '#base/outbound/host-rules.ts'
import { type FaultList, listed, quoted } from '../source/fault-list.ts'
import { type Field, type Fields, kindOf, openFields } from '../source/fields.ts'
import type { AccessLevel, Defaults, JobPermissions } from '../workflow.ts'
import { readTemplate, readTexts } from './values.ts'

const known = ['bash', 'sh', 'python']
const ofWindows = ['pwsh', 'powershell', 'cmd']

/** Reports a `shell` that is neither a known one nor a command with `{0}` for the path of the script. */
export function checkShell(field: Field | undefined, faults: FaultList): void {
  if (field?.node.kind !== 'scalar' || typeof field.node.value !== 'string') return
  const shell = field.node.value
  if (known.includes(shell) || shell.includes('{0}') || shell.includes('${{')) return
  const add = ofWindows.includes(shell.toLowerCase()) ? faults.unsupported : faults.add
  const message = `The shell ${quoted(shell)} is not supported.`
  const instead =
    'Write bash, sh, python, or a command with {0} for the path of the script, such as "perl {0}".'
  add(field.node.position, message, instead)
}

/** `defaults.run` of a workflow or a job. */
export function readDefaults(field: Field | undefined, faults: FaultList): Defaults {
  const none = { shell: undefined, workingDirectory: undefined }
  const outer = field && openFields(field, { name: '"defaults"', keys: ['run'] }, faults)
  const run = outer?.get('run')
  const inner = run && openFields(run, defaultsShape, faults)
  if (!inner) return none
  const shell = inner.get('shell')
  checkShell(shell, faults)
  return {
    shell: readTemplate(shell, 'job.defaults', faults),
    workingDirectory: readTemplate(inner.get('working-directory'), 'job.defaults', faults),
  }
}

const defaultsShape = { name: '"defaults.run"', keys: ['shell', 'working-directory'] as const }

const maxHosts = 100

/** The hosts of `network`: none for `none` or an empty list; undefined without it. */
export function readNetwork(field: Field | undefined, faults: FaultList): HostRule[] | undefined {
  if (!field) return undefined
  const { node } = field
  if (node.kind === 'scalar' && node.value === 'none') return []
  const texts = readTexts(field, faults)
  if (texts.length > maxHosts) {
    const message = `"network" has ${texts.length} hosts; the maximum is ${maxHosts}.`
    faults.add(node.position, message, 'Use patterns, such as *.example.com.')
    return []
  }
  return texts.flatMap(({ text, field: item }) => {
    const rule = text === 'none' ? '"none" stands in a list' : parseHostRule(text)
    if (typeof rule !== 'string') return [rule]
    faults.add(item.node.position, `In "network", ${rule}.`, instead)
    return []
  })
}

const instead =
  'Write "none", or hosts such as registry.npmjs.org, *.example.com, example.com:8080 or "*".'

const levels = ['read', 'write', 'none'] as const

/** The scopes of GitHub with their levels. */
const scopes = {
  actions: levels,
  'artifact-metadata': levels,
  attestations: levels,
  checks: levels,
  contents: levels,
  deployments: levels,
  discussions: levels,
  'id-token': ['write', 'none'],
  issues: levels,
  models: ['read', 'none'],
  packages: levels,
  pages: levels,
  'pull-requests': levels,
  'repository-projects': levels,
  'security-events': levels,
  statuses: levels,
} as const satisfies Record<string, readonly AccessLevel[]>

type ScopeName = keyof typeof scopes

// The table has no other keys.
const scopeNames = Object.keys(scopes) as ScopeName[]

const effective = new Set<ScopeName>(['actions', 'contents', 'id-token'])

const shape = { name: '"permissions"', keys: scopeNames }

const uniform = new Map<unknown, JobPermissions>([
  ['read-all', { contents: 'read', actions: 'read', idToken: false }],
  ['write-all', { contents: 'write', actions: 'write', idToken: true }],
])

/** Reads `permissions`. As on GitHub, scopes that it does not name are not granted. */
export function readPermissions(
  field: Field | undefined,
  faults: FaultList,
): JobPermissions | undefined {
  if (!field) return undefined
  const { node } = field
  if (node.kind === 'map') {
    const fields = openFields(field, shape, faults)
    return fields && readScopes(fields, faults)
  }
  const all = node.kind === 'scalar' ? uniform.get(node.value) : undefined
  if (all) return all
  const message = `"permissions" is ${kindOf(node)} that is no access level.`
  return void faults.add(
    node.position,
    message,
    'Write "read-all", "write-all" or "contents: read".',
  )
}

function readScopes(fields: Fields<ScopeName>, faults: FaultList): JobPermissions {
  const found = new Map(scopeNames.map((scope) => [scope, readLevel(fields, scope, faults)]))
  return {
    contents: found.get('contents') ?? 'none',
    actions: found.get('actions') ?? 'none',
    idToken: found.get('id-token') === 'write',
  }
}

function readLevel(
  fields: Fields<ScopeName>,
  scope: ScopeName,
  faults: FaultList,
): AccessLevel | undefined {
  const { node, keyPosition } = fields.get(scope) ?? {}
  if (!node || !keyPosition) return undefined
  const allowed: readonly AccessLevel[] = scopes[scope]
  const level = node.kind === 'scalar' ? allowed.find((one) => one === node.value) : undefined
  if (level) {
    if (level !== 'none' && !effective.has(scope))
      faults.note(keyPosition, `"${scope}" grants nothing: it has no counterpart here.`)
    return level
  }
  const words = allowed.map((one) => `"${one}"`)
  faults.add(node.position, `This is not an access level of "${scope}".`, `Write ${listed(words)}.`)
  return undefined
}
