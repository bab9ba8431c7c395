import { Type } from 'typebox'
import { objectIdPattern } from '#base/object-id.ts'
import { textForm } from '#base/schema-options.ts'

const shape = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
const reserved = new Set(['import', 'health'])
/** Addresses have these before the name of a repository. */
const addressFolders = new Set(['repos', 'r'])

/** Whether a text is a valid repository name: `site`, or `acme/site` in the namespace `acme`. */
export function isRepositoryName(text: string): boolean {
  const [namespace = '', name, ...others] = text.split('/')
  if (name === undefined) return isPlainName(text)
  return others.length === 0 && isNamespaceName(namespace) && isPlainName(name)
}

/** Whether a text is a valid name of a namespace. */
export function isNamespaceName(text: string): boolean {
  return isPlainName(text) && !addressFolders.has(text.toLowerCase())
}

function isPlainName(text: string): boolean {
  return (
    shape.test(text) &&
    !text.includes('..') &&
    !/\.(git|lock|)$/.test(text) &&
    !reserved.has(text.toLowerCase())
  )
}

/**
 * The name of a repository in an address with folders. It ends with the first part that ends in `.git`, or else with the
 * last part; the former may be followed by a path in the repository, and by a `.git` that a client appends. One folder
 * before it, other than `repos` and `r`, is its namespace; of more, none.
 */
export function repositoryNameIn(address: string): string | undefined {
  const parts = address.split('/').filter((part) => part !== '')
  if (parts.includes('..')) return undefined
  const end = parts.findIndex((part) => part.endsWith('.git'))
  const folders = parts.slice(0, end === -1 ? undefined : end + 1)
  let name = folders.pop() ?? ''
  while (name.endsWith('.git')) name = name.slice(0, -'.git'.length)
  const named = folders.slice(folders.findLastIndex((folder) => addressFolders.has(folder)) + 1)
  const full = `${named[0]}/${name}`
  if (named.length === 1 && isRepositoryName(full)) return full
  return isPlainName(name) ? name : undefined
}

const plainNameForm =
  '1 to 100 of A-Z a-z 0-9 . _ -, starting with a letter or digit, without "..", ' +
  'not ending in ".git", ".lock" or ".", and neither "import" nor "health"'

export const repositoryNameForm = `${plainNameForm}; or such a name after that of a namespace and a slash`

const plainPattern =
  '(?!(?:[iI][mM][pP][oO][rR][tT]|[hH][eE][aA][lL][tT][hH])(?:/|$))[A-Za-z0-9][A-Za-z0-9._-]{0,99}'
const endsPattern = '^(?!.*\\.\\.)(?!.*\\.(?:git|lock|)(?:/|$))'
const namespacePattern = `(?![rR](?:[eE][pP][oO][sS])?(?:/|$))${plainPattern}`

/** Repository names as a JSON schema. */
export const RepositoryName = Type.String({
  ...textForm(repositoryNameForm, `${endsPattern}(?:${namespacePattern}/)?${plainPattern}$`),
  maxLength: 201,
})

/** Names of namespaces. */
export const NamespaceName = Type.String({
  ...textForm(`${plainNameForm}, "repos" or "r"`, `${endsPattern}${namespacePattern}$`),
  maxLength: 100,
})

const usernameShape = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/
export const usernameForm = '1 to 64 of A-Z a-z 0-9 . _ - @, starting with a letter or digit'

export function isUsername(text: string): boolean {
  return usernameShape.test(text)
}

/** Usernames of tokens and collaborators. */
export const Username = Type.String({
  ...textForm(usernameForm, usernameShape.source),
  maxLength: 64,
})

export const namespaceMemberForm =
  'a username, or "group:" and the name of a group, of at most 200 characters'

/** Whether a text is a username, or `group:` and the name of a group of the identity provider. */
export function isNamespaceMember(text: string): boolean {
  return usernameShape.test(text) || /^group:[^\u0000-\u001f\u007f-\u009f]{1,200}$/.test(text)
}

/** The labels of tokens and SSH keys. */
export const TokenName = Type.String({
  ...textForm(
    '1 to 100 characters, none of them a control character',
    '^[^\\u0000-\\u001f\\u007f-\\u009f]{1,100}$',
  ),
  maxLength: 100,
})

/** The id of a commit or another object. */
export const objectIdForm = textForm(
  'a whole object id: 40 hexadecimal digits, or 64 in a repository of SHA-256',
  `^${objectIdPattern}$`,
)

/** The username of a run. No token or key can have it: other usernames contain no brackets. */
export function runUsername(number: number): string {
  return `run-${number}[bot]`
}

/** Whether a username belongs to a run, or to a workload that is a run of this server. */
export function isRunUsername(username: string): boolean {
  return /^run-\d+\[bot\]$|\[run:/.test(username)
}

/**
 * The username of a workload that a trust rule admits. No token, key or run can have it. Workflows put the names of actors
 * into scripts, so it has no character with a meaning there; the audit log has the subject as it is. `isRun` is for a run of
 * this server.
 */
export function workloadUsername(
  { name, isRun }: { name: string; isRun: boolean },
  subject: string,
): string {
  return `${name}[${isRun ? 'run' : 'workload'}:${subject.replace(/[^\w.:/@+=-]/g, '_')}]`
}

/** Limits for the lifetime of tokens and SSH keys. */
const maxExpiryDays = 3650
export const minExpirySeconds = 60
export const maxExpirySeconds = maxExpiryDays * 24 * 60 * 60

/** The `expiresInDays` of a new token or SSH key; `usual` describes the default. */
export function expiresInDays(usual: string) {
  return Type.Unsafe<number | null>({
    type: ['integer', 'null'],
    description: `1 to ${maxExpiryDays} days, or null for never; ${usual}`,
    minimum: 1,
    maximum: maxExpiryDays,
  })
}
