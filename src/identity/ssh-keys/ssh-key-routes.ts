import { type TProperties, Type } from 'typebox'
import { expiresInDays, TokenName, Username } from '#access/names.ts'
import { presets } from '#access/permissions.ts'
import { closed, field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { nothing, route } from '#http/route.ts'
import { LimitedRepositories, limitFields } from '../tokens/token-routes.ts'
import { type KeyPermission, keyPermissions, type SshKeys } from './ssh-keys.ts'

/** The routes of SSH keys. */
export function sshKeyRoutes(sshKeys: SshKeys) {
  return [
    route('GET', '/keys', {
      operationId: 'listSshKeys',
      tag: 'SSH keys',
      summary: 'List SSH keys',
      description:
        "Lists the keys of the token's user, oldest first. An admin token can list the keys of another `username`.",
      permission: 'any',
      query: KeysQuery,
      reply: { 200: Type.Array(SshKey) },
      problems: ['permission_missing'],
      handle: (request) =>
        paged(request, (page) =>
          sshKeys.list(request.principal, { username: request.query.username, page }),
        ),
    }),
    route('POST', '/keys', {
      operationId: 'createSshKey',
      tag: 'SSH keys',
      summary: 'Add an SSH key',
      description:
        "The key belongs to the token's username, and grants what the token holds of " +
        `${keyPermissions.join(' and ')}. It expires with the token, or sooner with \`expiresInDays\`; that of a ` +
        'person who has logged in need not expire. An admin token may name another `username`, and let the key last longer or for ever. Deleting the token does not delete the key. ' +
        'A key with `repositories` is a deploy key: it can access only these, with the role of its user.',
      permission: 'any',
      body: NewSshKey,
      reply: { 201: SshKey },
      problems: [
        'permission_missing',
        'repository_not_found',
        'ssh_key_taken',
        'too_many_ssh_keys',
      ],
      handle: ({ principal, body }) =>
        sshKeys.add(principal, {
          ...body,
          permissions: body.permissions?.flatMap((name) =>
            isPreset(name) ? byPreset[name] : name,
          ),
        }),
    }),
    route('DELETE', '/keys/:id', {
      operationId: 'deleteSshKey',
      tag: 'SSH keys',
      summary: 'Delete an SSH key',
      permission: 'any',
      reply: { 204: nothing },
      problems: ['ssh_key_not_found'],
      handle: ({ principal, params }) => sshKeys.remove(principal, params.id),
    }),
  ]
}

const KeysQuery = Type.Object({ ...PageQuery.properties, username: Type.Optional(Username) })

/** The presets that consist of permissions of keys, apart from others that a key cannot have. */
const byPreset = { read: ofKeys(presets.read), write: ofKeys(presets.write) }

function ofKeys(preset: readonly string[]): KeyPermission[] {
  return keyPermissions.filter((permission) => preset.includes(permission))
}

type KeyPreset = keyof typeof byPreset

function isPreset(name: KeyPermission | KeyPreset): name is KeyPreset {
  return name in byPreset
}

const permissionNames = [...keyPermissions, ...(Object.keys(byPreset) as KeyPreset[])]

const NewSshKey = Type.Object(
  {
    publicKey: Type.String({
      description: 'line of a .pub file',
      'x-form': 'the line of a .pub file',
    }),
    name: TokenName,
    username: Type.Optional(Username),
    expiresInDays: Type.Optional(expiresInDays('expires with the token when omitted')),
    permissions: Type.Optional(
      Type.Array(
        Type.Unsafe<KeyPermission | KeyPreset>({
          type: 'string',
          enum: permissionNames,
          description: permissionNames.join(', '),
        }),
        {
          description: `some of ${keyPermissions.join(', ')}; or a preset: read (${byPreset.read}), write (${byPreset.write.join(', ')}); defaults to those of the token`,
          maxItems: permissionNames.length,
        },
      ),
    ),
    repositories: Type.Optional(LimitedRepositories),
  },
  closed,
)

export const SshKey = named(
  'SshKey',
  Type.Object({
    id: field.text('opaque id'),
    username: field.text('user of the key'),
    name: field.text('label'),
    publicKey: field.text('line of the .pub file'),
    keyType: field.text('algorithm, such as ssh-ed25519'),
    fingerprint: field.text('`SHA256:…`, as ssh-keygen prints it'),
    permissions: field.texts('permissions'),
    repositories: limitFields.repositories,
    createdAt: field.integer('milliseconds since the Unix epoch'),
    expiresAt: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description: 'when it expires, null for never',
    }),
    lastUsedAt: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description: 'when it was last used, to within 30 s; null for never',
    }),
  } satisfies TProperties),
)
