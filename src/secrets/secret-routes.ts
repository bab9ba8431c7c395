import { Type } from 'typebox'
import { requireAllRefs } from '#access/may.ts'
import { closed, field } from '#base/schema-options.ts'
import { Sensitive } from '#base/sensitive.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { type FindRequest, nothing, route } from '#http/route.ts'
import { openOfRoute, openProblems } from '#repositories/open-repository.ts'
import type { Repositories } from '#repositories/repositories.ts'
import { secretNameForm } from './secret-names.ts'
import { maxSecrets, type Secrets, valueForm, valueMaxBytes } from './secrets.ts'

type Dependencies = { repositories: Repositories; secrets: Secrets }

/** The routes of secrets. No response contains a value. */
export function secretRoutes({ repositories, secrets }: Dependencies) {
  const find = openOfRoute(repositories)
  const findToChange = async (request: FindRequest<{ name: string }>) => {
    const repository = await find(request)
    // Runs of all refs have the secrets.
    requireAllRefs(request.principal)
    return repository
  }

  return [
    route('GET', '/repos/:name/secrets', {
      operationId: 'listSecrets',
      tag: 'secrets',
      summary: 'List secrets',
      description: 'Oldest first. Values are never returned.',
      permission: 'secrets:read',
      find,
      query: PageQuery,
      reply: { 200: Type.Array(Secret) },
      problems: [...openProblems],
      handle: async (request) => {
        const listed = await paged(request, (page) => secrets.list(request.found, page))
        return listed.map(({ id, ...secret }) => secret)
      },
    }),
    route('PUT', '/repos/:name/secrets/:secretName', {
      operationId: 'putSecret',
      tag: 'secrets',
      summary: 'Create or replace a secret',
      description:
        'Steps of workflows whose file names the secret can use the value; it cannot be read back. Requires an encryption ' +
        `key on the server. A name is ${secretNameForm}. Names of variables that steps have (SVC_…, GITHUB_…, RUNNER_…, ` +
        'PATH) or that the loader, shells and interpreters execute (LD_PRELOAD, BASH_ENV, NODE_OPTIONS, …) are not ' +
        `accepted. A repository has at most ${maxSecrets} secrets.`,
      permission: 'secrets:write',
      find: findToChange,
      body: Type.Object(
        {
          value: Type.String({
            description: valueForm,
            'x-form': valueForm,
            minLength: 1,
            maxLength: valueMaxBytes,
          }),
        },
        closed,
      ),
      reply: { 200: SecretSaved },
      problems: [...openProblems, 'token_limited', 'too_many_secrets', 'encryption_key_missing'],
      handle: ({ principal, found, params, body }) =>
        secrets.put(principal, found, params.secretName, new Sensitive(body.value)),
    }),
    route('DELETE', '/repos/:name/secrets/:secretName', {
      operationId: 'deleteSecret',
      tag: 'secrets',
      summary: 'Delete a secret',
      permission: 'secrets:write',
      find: findToChange,
      reply: { 204: nothing },
      problems: [...openProblems, 'token_limited', 'secret_not_found'],
      handle: ({ principal, found, params }) => secrets.remove(principal, found, params.secretName),
    }),
  ]
}

export const Secret = named(
  'Secret',
  Type.Object({
    name: field.text('name of the secret'),
    repoName: field.text('name of the repository'),
    createdAt: field.integer('milliseconds since the Unix epoch'),
    updatedAt: field.integer('when the value was last set'),
  }),
)

const SecretSaved = named(
  'SavedSecret',
  Type.Object({
    name: field.text('name of the secret'),
    repoName: field.text('name of the repository'),
    message: field.text('confirmation message'),
  }),
)
