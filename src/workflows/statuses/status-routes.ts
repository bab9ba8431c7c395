import { Type } from 'typebox'
import { objectIdPattern } from '#base/object-id.ts'
import { closed, field, textForm } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { route } from '#http/route.ts'
import { openOfRoute, openProblems } from '#repositories/open-repository.ts'
import type { Repositories } from '#repositories/repositories.ts'
import { contextForm } from '#repositories/requirements.ts'
import { maxStatuses, type Statuses } from './statuses.ts'

type Dependencies = { repositories: Repositories; statuses: Statuses }

/** The routes of the statuses of commits. */
export function statusRoutes({ repositories, statuses }: Dependencies) {
  const find = openOfRoute(repositories)
  const problems = [...openProblems, 'revision_not_found'] as const
  return [
    route('GET', '/repos/:name/statuses', {
      operationId: 'listCombinedStatuses',
      tag: 'commit statuses',
      summary: 'Combine the statuses of commits',
      description:
        'What checks from outside say of several commits: the newest status of each context counts. Commits without any are ' +
        'left out.',
      permission: 'workflow:read',
      find,
      query: Type.Object(
        {
          commits: Type.String({
            ...textForm(
              '1 to 100 whole ids of commits, separated by commas',
              `^${objectIdPattern}(,${objectIdPattern}){0,99}$`,
            ),
          }),
        },
        closed,
      ),
      reply: { 200: Type.Array(CombinedStatusSchema) },
      problems: [...openProblems],
      handle: ({ found, query }) => statuses.combine(found.id, query.commits.split(',')),
    }),
    route('GET', '/repos/:name/commits/:commit/statuses', {
      operationId: 'listStatuses',
      tag: 'commit statuses',
      summary: 'List the statuses of a commit',
      description:
        'What checks say of a commit, given by its whole id, newest first: the last status of each context and user, and ' +
        'for each workflow file the newest run. The first one of a context counts.',
      permission: 'workflow:read',
      find,
      reply: { 200: Type.Array(CommitStatusSchema) },
      problems: [...problems],
      handle: ({ found, params }) => statuses.list(found, params.commit),
    }),
    route('POST', '/repos/:name/commits/:commit/statuses', {
      operationId: 'reportStatus',
      tag: 'commit statuses',
      summary: 'Report a status of a commit',
      description:
        'For checks from outside. It takes the place of the status that the same user has reported in the same context. A ' +
        `commit has at most ${maxStatuses} statuses.`,
      permission: 'status:write',
      find,
      body: Type.Object(
        {
          context: Type.String({
            ...contextForm,
            description: 'what has checked it, such as ci/build',
          }),
          state: State,
          description: Type.Optional(
            Type.String({ description: 'its result in a line', maxLength: 500 }),
          ),
          targetUrl: Type.Optional(
            Type.String({
              ...textForm(
                'an http or https address of at most 2000 characters',
                '^https?://[^\\s\\p{Cc}]{1,1990}$',
              ),
              description: 'where its details are',
            }),
          ),
        },
        closed,
      ),
      reply: { 201: CommitStatusSchema },
      problems: [...problems, 'too_many_statuses'],
      handle: ({ principal, found, params, body }) =>
        statuses.report(principal, found, params.commit, body),
    }),
  ]
}

const states = ['pending', 'success', 'failure', 'error'] as const

const State = Type.Enum([...states], {
  description:
    '`pending`, `success`, `failure` (it is not good) or `error` (it could not be checked)',
})

export const CombinedStatusSchema = named(
  'CombinedStatus',
  Type.Object({
    commit: field.text('id of the commit'),
    state: Type.Enum(['pending', 'success', 'failure'], {
      description:
        '`failure` if one has failed or could not be checked, otherwise `pending` if one is',
    }),
    contexts: field.integer('contexts that were reported'),
    succeeded: field.integer('those of them whose newest status is `success`'),
  }),
)

export const CommitStatusSchema = named(
  'CommitStatus',
  Type.Object({
    context: field.text('what has checked the commit; for a run, the path of the workflow file'),
    state: State,
    description: field.text('the result in a line, or empty'),
    targetUrl: field.orNull(Type.String(), 'where its details are'),
    username: field.text('who has reported it, or caused the run'),
    createdAt: field.time('when it was reported, or the run was queued'),
    run: field.orNull(
      Type.Object({ id: Type.String(), number: Type.Integer(), name: Type.String() }),
      'the run of a workflow; null for a check from outside',
    ),
  }),
)
