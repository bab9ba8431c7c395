import { type FaultList, listed } from './fault-list.ts'
import { type Field, type Fields, kindOf, openFields } from './fields.ts'
import type { AccessLevel, JobPermissions } from './workflow.ts'

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
