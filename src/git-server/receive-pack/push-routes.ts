import { Type } from 'typebox'
import { fullNameFault } from '../../git/refs/ref-name.ts'
import { named } from '../../http/named-schemas.ts'
import { linkToNext, PageQuery } from '../../http/pages.ts'
import { type FindRequest, route } from '../../http/route.ts'
import { invalid } from '../../http/validation.ts'
import type { Repositories } from '../../repositories/repositories.ts'
import type { PushJournal } from './push-journal.ts'
import type { Undo } from './undo.ts'

type Dependencies = { repositories: Repositories; pushJournal: PushJournal; undo: Undo }

const usualPage = 100

/** The routes of the journal of pushes. */
export function pushRoutes({ repositories, pushJournal, undo }: Dependencies) {
  const open = ({ principal, permission, params }: FindRequest<{ name: string }>) =>
    repositories.open(principal, params.name, permission)
  const missing = ['repository_not_found', 'repository_importing'] as const

  return [
    route('GET', '/repos/:name/pushes', {
      operationId: 'listPushes',
      tag: 'pushes',
      summary: 'List the pushes, newest first',
      description:
        'Who changed which refs, when and which way. A page has 100 unless `limit` says otherwise, and fewer ' +
        'when they changed very many refs.',
      permission: 'repo:read',
      find: open,
      query: Type.Object({
        ...PageQuery.properties,
        ref: Type.Optional(
          Type.String({
            description: 'pushes that changed this ref, by its full name',
            maxLength: 1024,
          }),
        ),
      }),
      reply: { 200: Type.Array(Push) },
      problems: [...missing],
      handle: async ({ found, query, url, setHeader }) => {
        const { ref, limit = usualPage, cursor: before = '' } = query
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
      problems: [...missing, 'push_not_found'],
      handle: ({ found, params }) => pushJournal.find(found, params.id),
    }),
    route('POST', '/repos/:name/pushes/:id/undo', {
      operationId: 'undoPush',
      tag: 'pushes',
      summary: 'Undo a push',
      description:
        'Puts every ref that it changed back to what it was before, or none: each must still be what the push ' +
        'made it. That is a push of its own, with `via: "undo"`, and has its events, workflows and the rules that ' +
        'hold for whoever asks. It can be undone, too.',
      permission: 'repo:write',
      find: open,
      reply: { 200: Push },
      problems: [
        ...missing,
        'push_not_found',
        'push_not_undoable',
        'branch_protected',
        'git_busy',
        'storage_full',
      ],
      handle: ({ principal, found, params, untilGone }) =>
        undo(principal, found, params.id, untilGone()),
    }),
  ]
}

function requireFullName(ref: string | undefined): void {
  const detail = ref === undefined ? undefined : fullNameFault(ref)
  if (detail !== undefined) throw invalid([{ pointer: '/ref', detail }])
}

const time = (what: string) =>
  Type.Integer({ description: `${what}, in milliseconds since the Unix epoch` })
const objectId = Type.String({ description: 'an object id; 40 zeros when there is no such ref' })

const Push = named(
  'Push',
  Type.Object({
    id: Type.String({ description: 'its id, for addresses' }),
    repoName: Type.String({ description: "the repository's name" }),
    actor: Type.Object(
      {
        id: Type.String({ description: "the token's or the key's id" }),
        username: Type.String({ description: 'the user whose token or key it was' }),
      },
      { description: 'who pushed' },
    ),
    via: Type.String({ description: '`http`, `ssh`, or `undo` for the undoing of a push' }),
    pushedAt: time('when it came'),
    finishedAt: time('when its refs had changed'),
    refs: Type.Array(
      Type.Object({
        ref: Type.String({ description: 'the full name' }),
        before: objectId,
        after: objectId,
        forced: Type.Boolean({
          description: 'whether what it was is not in the history of what it is',
        }),
        created: Type.Boolean({ description: 'whether there was no such ref before' }),
        deleted: Type.Boolean({ description: 'whether there is no such ref after' }),
      }),
      { description: 'the refs that it changed' },
    ),
    undoable: Type.Boolean({
      description:
        'whether its refs and what is kept allow an undo now, for somebody who may change these refs; names that are ' +
        'in the way of others, as `x/y` is of `x`, are not looked for',
    }),
    keptUntil: Type.Union([
      time('until when what it overwrote or deleted is kept; null when there is nothing'),
      Type.Null(),
    ]),
    undoes: Type.Union([Type.String(), Type.Null()], {
      description: 'the id of the push that this one has undone; null for a push by a client',
    }),
  }),
)
