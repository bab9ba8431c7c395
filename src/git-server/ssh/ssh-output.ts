import type { Permission } from '#access/permissions.ts'
import { printable, toDate, toTable } from '#base/format.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { SshCaller, SshCommand } from './ssh-command.ts'

type Listed = Awaited<ReturnType<Repositories['list']>>[number]
type Described = Awaited<ReturnType<Repositories['describe']>>

/** `repos`: one repository a line, the name first. */
export function toRepositoryList(repositories: Listed[]): string {
  return toTable(
    repositories.map(({ name, createdAt, protectedBranches }) => [
      name,
      toDate(createdAt),
      protectedBranches.length > 0 ? `protected: ${protectedBranches.join(' ')}` : '',
    ]),
  )
}

/** `info`: `Field: value` lines. */
export function toDetails(repository: Described): string {
  const { name, createdAt, defaultBranch, empty, sizeBytes, protectedBranches } = repository
  const { cloneUrls, id, description, pushedAt, ownerTokenId, ownerUsername } = repository
  return toFields({
    Name: name,
    Id: id,
    Description: description || 'none',
    Created: `${toDate(createdAt)} UTC`,
    Pushed: pushedAt === null ? 'never' : `${toDate(pushedAt)} UTC`,
    Owner: ownerUsername,
    ...(ownerTokenId !== '' && { 'Owner token': ownerTokenId }),
    'Default branch': defaultBranch,
    Empty: empty ? 'yes' : 'no',
    'Size in bytes': String(sizeBytes),
    'Protected branches': protectedBranches.join(' ') || 'none',
    'Clone over HTTP': cloneUrls.http,
    'Clone over SSH': cloneUrls.ssh ?? 'off',
  })
}

/** `whoami`, as JSON; `repositories` are those to which the key is limited. */
export function toIdentity({ principal, key }: SshCaller, repositories?: string[]) {
  return {
    username: usernameOf(principal),
    permissions: [...principal.permissions],
    ...(repositories && { repositories }),
    key: key
      ? {
          id: key.id,
          name: key.name,
          keyType: key.keyType,
          fingerprint: key.fingerprint,
          expiresAt: key.expiresAt,
        }
      : null,
  }
}

/** `whoami`: `Field: value` lines. */
export function toSelf({ principal, key }: SshCaller, repositories?: string[]): string {
  return toFields({
    Username: usernameOf(principal),
    Key: key ? `${key.name} (${key.keyType} ${key.fingerprint})` : 'none',
    Permissions: [...principal.permissions].join(' ') || 'none',
    ...(repositories && { Repositories: repositories.join(' ') || 'none' }),
    ...(key?.expiresAt && { Expires: `${toDate(key.expiresAt)} UTC` }),
  })
}

/** `help`, as JSON. */
export function toCatalogue(commands: Record<string, SshCommand>) {
  return Object.entries(commands).map(([name, { usage, summary }]) => ({
    name,
    usage: `${name}${usage && ` ${usage}`}`,
    summary,
  }))
}

/** `help`. */
export function toHelp(commands: Record<string, SshCommand>): string {
  const rows = toCatalogue(commands).map(({ usage, summary }) => [`  ${usage}`, summary])
  return `Commands:\n${toTable(rows)}Commands that print accept --json.\n`
}

/** The greeting for a login without a command. */
export function toGreeting({ principal, key }: SshCaller, help: string): string {
  const who = printable(usernameOf(principal))
  const how = key
    ? `your key "${printable(key.name)}" (${key.fingerprint}) may ${abilities(principal.permissions)}`
    : `you may read ${principal.readsAll ? 'every repository' : 'public repositories'} without a key`
  return `Hello ${who}: ${how}.\nShell access is not provided.\n\n${help}`
}

function usernameOf({ kind, username }: SshCaller['principal']): string {
  return kind === 'anonymous' ? 'anonymous' : username
}

function abilities(permissions: ReadonlySet<Permission>): string {
  const all = [permissions.has('repo:read') && 'read', permissions.has('repo:write') && 'push']
  return all.filter(Boolean).join(' and ') || 'neither read nor push'
}

function toFields(fields: Record<string, string>): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}: ${printable(value)}\n`)
    .join('')
}
