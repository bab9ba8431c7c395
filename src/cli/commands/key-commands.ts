import { tokenNameForm, usernameForm } from '#access/names.ts'
import type { App } from '#app.ts'
import { toDate, toTable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { type KeyPermission, keyPermissions } from '#identity/ssh-keys/ssh-keys.ts'
import { assertForm } from './assert-form.ts'
import { localPrincipal } from './local.ts'
import { parseDays } from './parse-days.ts'
import { readKey } from './read-key.ts'
import type { Terminal } from './terminal.ts'

type AddOptions = {
  username: string
  name?: string
  permission?: string[]
  expiresInDays?: string
  json?: boolean
}

const allKeys = { after: '', limit: undefined }

/** `svc keys add` and `svc keys-add` */
export async function addKey(
  { sshKeys }: App,
  key: string | undefined,
  options: AddOptions,
  terminal: Terminal,
) {
  assertForm(usernameForm, 'a username', options.username)
  if (options.name !== undefined) assertForm(tokenNameForm, 'a name', options.name)
  const added = await sshKeys.add(localPrincipal, {
    username: options.username,
    name: options.name,
    permissions: options.permission?.map(parsePermission),
    expiresInDays: parseDays(options.expiresInDays),
    publicKey: await readKey(key, terminal),
  })
  const { id, username, fingerprint } = added
  terminal.out(
    options.json ? toSafeJson(added) : `Added ${fingerprint} for ${username}, id ${id}.\n`,
  )
}

/** `svc keys list` */
export async function listKeys(
  { sshKeys }: App,
  { username, json }: { username?: string; json?: boolean },
  { out }: Terminal,
) {
  const keys = await (username === undefined
    ? sshKeys.listAll(allKeys)
    : sshKeys.list(localPrincipal, { username, page: allKeys }))
  if (json) return out(toSafeJson(keys))
  const rows = keys.map((key) => [
    key.id,
    key.name,
    key.username,
    key.fingerprint,
    toDate(key.expiresAt),
    toDate(key.lastUsedAt),
    key.permissions.join(' '),
  ])
  out(
    toTable([
      ['ID', 'NAME', 'USERNAME', 'FINGERPRINT', 'EXPIRES', 'LAST USED', 'PERMISSIONS'],
      ...rows,
    ]),
  )
}

/** `svc keys remove` */
export async function removeKey(
  { sshKeys }: App,
  id: string,
  { json }: { json?: boolean },
  { out }: Terminal,
) {
  await sshKeys.remove(localPrincipal, id)
  out(json ? toSafeJson({ id, removed: true }) : `SSH key ${id} is removed.\n`)
}

function parsePermission(text: string): KeyPermission {
  const permission = keyPermissions.find((known) => known === text)
  if (permission) return permission
  throw new Error(
    `An SSH key cannot have "${text}"; its permissions are ${keyPermissions.join(', ')}.`,
  )
}
