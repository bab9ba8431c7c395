import { Type } from 'typebox'
import { isAdmin } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import type { Db } from '#database/schema.ts'
import { named } from '#http/named-schemas.ts'
import { linkToNext, PageQuery } from '#http/pagination.ts'
import { route } from '#http/route.ts'
import { findSshKey } from '#identity/ssh-keys/ssh-key-store.ts'
import { findToken } from '#identity/tokens/token-store.ts'
import { requireFullName } from '#repositories/full-ref-name.ts'
import { openOfRoute, openProblems } from '#repositories/open-repository.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { JournalEntry, PushJournal } from './push-journal.ts'
import type { Undo } from './undo.ts'

type Dependencies = {
  db: Db
  repositories: Repositories
  pushJournal: PushJournal
  undo: Undo
}

const defaultLimit = 100

/** The routes of the journal of pushes. */
export function pushRoutes({ db, repositories, pushJournal, undo }: Dependencies) {
  const open = openOfRoute(repositories)

  return [
    route('GET', '/repos/:name/pushes', {
      operationId: 'listPushes',
      tag: 'pushes',
      summary: 'List pushes',
      description:
        'Lists who changed which refs, when and over which transport, newest first. A page has 100 pushes unless ' +
        '`limit` is given, and fewer when they changed many refs.',
      permission: 'repo:read',
      find: open,
      query: Type.Object({
        ...PageQuery.properties,
        ref: Type.Optional(
          Type.String({
            description: 'Only pushes that changed this ref, given by its full name',
            maxLength: 1024,
          }),
        ),
      }),
      reply: { 200: Type.Array(Push) },
      problems: [...openProblems],
      handle: async ({ found, query, url, setHeader }) => {
        const { ref, limit = defaultLimit, cursor: before = '' } = query
        requireFullName(ref)
        const { pushes, isAll } = await pushJournal.list(found, { before, limit, ref })
        const last = pushes.at(-1)
        if (!isAll && last) setHeader('link', linkToNext(url, { limit, cursor: last.id }))
        return pushes
      },
    }),
    route('GET', '/repos/:name/pushes/:id', {
      operationId: 'getPush',
      tag: 'pushes',
      summary: 'Get a push',
      permission: 'repo:read',
      find: open,
      reply: { 200: Push },
      problems: [...openProblems, 'push_not_found'],
      handle: async ({ principal, found, params }) => {
        const push = await pushJournal.find(found, params.id)
        return { ...push, actor: { ...push.actor, name: await nameOf(db, principal, push.actor) } }
      },
    }),
    route('POST', '/repos/:name/pushes/:id/undo', {
      operationId: 'undoPush',
      tag: 'pushes',
      summary: 'Undo a push',
      description:
        'Restores all refs that the push changed, or none. Each ref must still have the value that the push gave it. ' +
        'The undo is recorded as a new push with `via: "undo"`; it emits events, triggers workflows and is subject to ' +
        'branch protections. It can be undone in turn.',
      permission: 'repo:write',
      find: open,
      reply: { 200: Push },
      problems: [
        ...openProblems,
        'push_not_found',
        'push_not_undoable',
        'branch_protected',
        'tag_protected',
        'run_required',
        'status_required',
        'path_locked',
        'token_limited',
        'git_busy',
        'storage_full',
      ],
      handle: ({ principal, found, params, clientSignal }) =>
        undo(principal, found, params.id, clientSignal()),
    }),
  ]
}

/** The name of a token or key, which admins and its own user see; null when it is deleted. */
async function nameOf(
  db: Db,
  principal: Principal,
  { id, username }: JournalEntry['actor'],
): Promise<string | null> {
  if (!isAdmin(principal) && principal.username !== username) return null
  const credential = (await findToken(db, id)) ?? (await findSshKey(db, id))
  return credential?.name ?? null
}

const time = (description: string) =>
  Type.Integer({ description: `${description}, in milliseconds since the Unix epoch` })
const objectId = Type.String({
  description: 'An object id; 40 zeros, with either object format, when the ref does not exist',
})

export const Push = named(
  'Push',
  Type.Object({
    id: Type.String({ description: 'Id of the push' }),
    repoName: Type.String({ description: 'Name of the repository' }),
    actor: Type.Object(
      {
        id: Type.String({ description: 'Id of the token or key' }),
        username: Type.String({ description: 'User of the token or key' }),
        name: Type.Optional(
          Type.Union([Type.String(), Type.Null()], {
            description:
              'Name of the token or key, where one push is shown to an admin or to the same user; null when it is deleted',
          }),
        ),
      },
      { description: 'Who pushed' },
    ),
    via: Type.String({
      description:
        '`http` or `ssh` for a push by a client; `api` for a change through the API; `undo` for the undo of a push',
    }),
    pushedAt: time('When the push was received'),
    finishedAt: time('When its refs had been updated'),
    refs: Type.Array(
      Type.Object({
        ref: Type.String({ description: 'Full name of the ref' }),
        before: objectId,
        after: objectId,
        forced: Type.Boolean({
          description: 'Whether the update was not a fast-forward',
        }),
        created: Type.Boolean({ description: 'Whether the push created the ref' }),
        deleted: Type.Boolean({ description: 'Whether the push deleted the ref' }),
      }),
      { description: 'Refs that the push changed' },
    ),
    undoable: Type.Boolean({
      description:
        'Whether an undo is possible now for a user who may change these refs. Does not detect name conflicts, such ' +
        'as a ref `x/y` that prevents a ref `x`',
    }),
    keptUntil: Type.Union([
      time('Until when the overwritten or deleted commits are retained; null when there are none'),
      Type.Null(),
    ]),
    undoes: Type.Union([Type.String(), Type.Null()], {
      description: 'Id of the push that this one undid; null for a push by a client',
    }),
  }),
)
