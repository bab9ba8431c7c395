import { isIP } from 'node:net'
import { Type } from 'typebox'
import { RepositoryName, Username } from '#access/names.ts'
import type { Permission } from '#access/permissions.ts'
import { type Origin, origins, type Principal } from '#access/principal.ts'
import { idPattern } from '#base/ids.ts'
import { field, textForm } from '#base/schema-options.ts'
import { canonicalAddress } from '#http/connection/forwarded.ts'
import { named } from '#http/named-schemas.ts'
import { cursorForm, linkToNext } from '#http/pagination.ts'
import { route } from '#http/route.ts'
import { invalid, ofQuery } from '#http/validation.ts'
import type { AuditLog } from './audit-log.ts'
import { auditActions } from './record.ts'

type Dependencies = {
  auditLog: AuditLog
  repositories: {
    openInAnyState: (
      principal: Principal,
      name: string,
      permission: Permission,
    ) => Promise<{ id: string }>
  }
}

const defaultLimit = 100

/** The route of the audit log. */
export function auditRoutes({ auditLog, repositories }: Dependencies) {
  return [
    route('GET', '/audit', {
      operationId: 'listAuditEntries',
      tag: 'audit',
      summary: 'List audit entries',
      description:
        'Lists who changed what, when, with which token or key and from where, newest first. One response covers a ' +
        'limited part of the log: with a filter it may be empty although older entries match. The `Link` header then ' +
        'has the next page; without one, the list has ended.',
      permission: 'admin',
      query: Type.Object({
        limit: Type.Optional(
          Type.Integer({ description: 'the page size, 1 to 1000', minimum: 1, maximum: 1000 }),
        ),
        cursor: Type.Optional(
          Type.String({
            ...cursorForm('^[1-9][0-9]{0,14}$'),
            maxLength: 15,
          }),
        ),
        username: Type.Optional(Username),
        credential: Type.Optional(
          Type.String({
            ...textForm('an id, `local` or `server`', `^(local|server|${idPattern})$`),
            description:
              'the id of the token, SSH key or workflow run; `local` for commands on the server, `server` for what it did by itself',
            maxLength: 26,
          }),
        ),
        action: Type.Optional(
          Type.String({
            ...textForm(
              `actions, separated by commas: ${auditActions.join(', ')}`,
              `^(${anyAction})(,(${anyAction}))*$`,
            ),
            maxLength: 1000,
          }),
        ),
        repository: Type.Optional(RepositoryName),
        repositoryId: Type.Optional(
          Type.String({
            ...textForm('an id', `^${idPattern}$`),
            description: 'the id of the repository, which may be gone',
            maxLength: 26,
          }),
        ),
        via: Type.Optional(
          Type.Unsafe<Origin['via']>({
            type: 'string',
            enum: origins,
            description: 'how the change was made',
          }),
        ),
        address: Type.Optional(
          Type.String({
            ...textForm('an IP address', '^[0-9A-Fa-f.:]+$'),
            description: "the client's IP address",
            maxLength: 45,
          }),
        ),
        since: Type.Optional(time('only entries from this time on')),
        until: Type.Optional(time('only entries up to this time')),
      }),
      reply: { 200: Type.Array(AuditEntrySchema) },
      problems: ['repository_not_found'],
      handle: async ({ principal, query, url, setHeader }) => {
        const { limit = defaultLimit, cursor, action, repository, address, ...filter } = query
        if (address !== undefined && isIP(address) === 0)
          throw invalid([ofQuery('address', `cannot be "${address}"; it must be an IP address.`)])
        if (repository !== undefined && filter.repositoryId !== undefined)
          throw invalid([ofQuery('repositoryId', 'cannot be given with `repository`.')])
        const actions = action?.split(',')
        const repositoryId =
          repository === undefined
            ? filter.repositoryId
            : (await repositories.openInAnyState(principal, repository, 'repo:read')).id
        const { entries, next } = await auditLog.list(
          principal,
          { ...filter, actions, repositoryId, address: address && canonicalAddress(address) },
          { before: cursor === undefined ? undefined : Number(cursor), limit },
        )
        if (next !== undefined) setHeader('link', linkToNext(url, { limit, cursor: next }))
        return entries
      },
    }),
  ]
}

const anyAction = auditActions.map((action) => action.replace('.', '\\.')).join('|')

function time(description: string) {
  return Type.Integer({
    description: `${description}, in milliseconds since the Unix epoch`,
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
  })
}

export const AuditEntrySchema = named(
  'AuditEntry',
  Type.Object({
    seq: field.integer('Number of the entry; there are no gaps'),
    createdAt: field.time('When it was recorded'),
    action: field.text('What was done: the kind of an event, or another action'),
    actor: Type.Object(
      {
        id: field.text('Id of the token or SSH key; `local` or `server`'),
        username: Type.String(),
      },
      { description: 'Who did it' },
    ),
    via: field.text(
      'How: through the `api`, by Git over `http` or `ssh`, by a command on the server (`cli`), or by the `server` itself',
    ),
    address: field.orNull(
      Type.String(),
      "The client's IP address; null for commands and the server",
    ),
    repositoryId: field.orNull(Type.String(), 'Id of the repository'),
    repoName: field.orNull(Type.String(), 'Its present name; null when it is gone'),
    data: Type.Object({}, { additionalProperties: true, description: 'Details, by action' }),
    hash: field.text('SHA-256 over this entry and the hash of the one before it, in hex'),
  }),
)
