import { tokenNameForm, usernameForm } from '#access/names.ts'
import { isPermission, type Permission, permissions } from '#access/permissions.ts'
import type { App } from '#app.ts'
import { toDate, toTable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import type { Token } from '#identity/tokens/token-rows.ts'
import { assertForm } from './assert-form.ts'
import { localPrincipal } from './local.ts'
import { parseDays, parseSeconds } from './parse-days.ts'
import type { Terminal } from './terminal.ts'

type CreateOptions = {
  name: string
  permission?: string[]
  username?: string
  expiresInDays?: string
  expiresInSeconds?: string
  repository?: string[]
  ref?: string[]
  json?: boolean
}

/** `svc tokens create` */
export async function createToken({ tokens }: App, options: CreateOptions, { out }: Terminal) {
  assertForm(tokenNameForm, 'a name', options.name)
  if (options.username !== undefined) assertForm(usernameForm, 'a username', options.username)
  const created = await tokens.create(localPrincipal, {
    name: options.name,
    permissions: options.permission?.map(parsePermission),
    username: options.username ?? (options.permission?.includes('admin') ? 'admin' : undefined),
    expiresInDays: parseDays(options.expiresInDays),
    expiresInSeconds: parseSeconds(options.expiresInSeconds),
    repositories: options.repository,
    refs: options.ref,
  })
  // The token alone goes to standard output, for pipes.
  out(options.json ? toSafeJson(created) : `${created.token}\n`)
}

/** `svc tokens list` */
export async function printTokens(
  { tokens }: App,
  { json }: { json?: boolean },
  { out }: Terminal,
) {
  const all = await tokens.list(localPrincipal, { after: '', limit: undefined })
  if (json) return out(toSafeJson(all))
  const rows = all.map((token) => [
    token.id,
    token.name,
    token.username,
    toDate(token.expiresAt),
    toDate(token.lastUsedAt),
    token.permissions.join(' '),
    toLimits(token),
  ])
  out(
    toTable([['ID', 'NAME', 'USERNAME', 'EXPIRES', 'LAST USED', 'PERMISSIONS', 'LIMITS'], ...rows]),
  )
}

/** `svc tokens revoke` */
export async function revokeToken(
  { tokens }: App,
  id: string,
  { json }: { json?: boolean },
  { out }: Terminal,
) {
  await tokens.revoke(localPrincipal, id)
  out(json ? toSafeJson({ id, revoked: true }) : `Token ${id} is revoked.\n`)
}

function toLimits({ repositories, refs, delegatedFrom }: Token): string {
  return [
    ...(repositories ? [`repositories ${repositories.join(' ') || '(deleted)'}`] : []),
    ...(refs ? [`refs ${refs.join(' ')}`] : []),
    ...(delegatedFrom ? [`delegated from ${delegatedFrom}`] : []),
  ].join(', ')
}

function parsePermission(text: string): Permission {
  if (isPermission(text)) return text
  throw new Error(`"${text}" is not a permission; permissions are ${permissions.join(', ')}.`)
}
