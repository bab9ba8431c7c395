import { Type } from 'typebox'
import { objectIdPattern } from '#base/object-id.ts'
import { textForm } from '#base/schema-options.ts'

const shape = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
const reserved = new Set(['import', 'health'])

/** Whether a text is a valid repository name. */
export function isRepositoryName(text: string): boolean {
  return (
    shape.test(text) &&
    !text.includes('..') &&
    !/\.(git|lock|)$/.test(text) &&
    !reserved.has(text.toLowerCase())
  )
}

/**
 * The name of a repository in an address with folders: the first part that ends in `.git`, or else the last part. The
 * former may be followed by a path in the repository, and by a `.git` that a client appends.
 */
export function repositoryNameIn(address: string): string | undefined {
  const parts = address.split('/').filter((part) => part !== '')
  if (parts.includes('..')) return undefined
  let name = parts.find((part) => part.endsWith('.git')) ?? parts.at(-1) ?? ''
  while (name.endsWith('.git')) name = name.slice(0, -'.git'.length)
  return isRepositoryName(name) ? name : undefined
}

export const repositoryNameForm =
  '1 to 100 of A-Z a-z 0-9 . _ -, starting with a letter or digit, without "..", ' +
  'not ending in ".git", ".lock" or ".", and neither "import" nor "health"'

/** Repository names as a JSON schema. */
export const RepositoryName = Type.String({
  ...textForm(
    repositoryNameForm,
    '^(?!.*\\.\\.)(?!.*\\.(?:git|lock|)$)(?!(?:[iI][mM][pP][oO][rR][tT]|[hH][eE][aA][lL][tT][hH])$)' +
      '[A-Za-z0-9][A-Za-z0-9._-]{0,99}$',
  ),
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

/** Whether a username belongs to a run. */
export function isRunUsername(username: string): boolean {
  return /^run-\d+\[bot\]$/.test(username)
}

/** The username of a workload that a trust rule admits. No token, key or run can have it. */
export function workloadUsername(ruleName: string, subject: string): string {
  return `${ruleName}[workload:${subject}]`
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
