import { type TProperties, Type } from 'typebox'
import { requireAllRefs } from '#access/may.ts'
import { closed, field } from '#base/schema-options.ts'
import { Sensitive } from '#base/sensitive.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { type FindRequest, nothing, route } from '#http/route.ts'
import { routesOfScopes, type ScopeAccess } from '#repositories/scopes.ts'
import { secretNameForm } from './secret-names.ts'
import { maxSecrets, type Secrets, valueForm, valueMaxBytes } from './secrets.ts'

type Dependencies = ScopeAccess & { secrets: Secrets }

/** The routes of secrets. No response contains a value. */
export function secretRoutes({ secrets, ...access }: Dependencies) {
  return routesOfScopes(access, ({ kind, path, ...scope }) => {
    const [open, problems] = [scope.open('member'), scope.problems('member')]
    const isNamespace = kind === 'namespace'
    const findToChange = async (request: FindRequest) => {
      const scope = await open(request)
      // Runs of all refs have the secrets.
      requireAllRefs(request.principal)
      return scope
    }
    const [Listed, Saved] = isNamespace ? ofNamespaces : ofRepositories

    return [
      route('GET', `${path}/secrets`, {
        operationId: 'listSecrets',
        tag: 'secrets',
        summary: 'List secrets',
        description: 'Oldest first. Values are never returned.',
        permission: 'secrets:read',
        find: open,
        query: PageQuery,
        reply: { 200: Type.Array(Listed) },
        problems,
        handle: async (request) => {
          const listed = await paged(request, (page) => secrets.list(request.found, page))
          return listed.map(({ id, ...secret }) => secret)
        },
      }),
      route('PUT', `${path}/secrets/:secretName`, {
        operationId: 'putSecret',
        tag: 'secrets',
        summary: 'Create or replace a secret',
        description:
          'Steps of workflows whose file names the secret can use the value; it cannot be read back. Requires an encryption ' +
          `key on the server. A name is ${secretNameForm}. Names of variables that steps have (SVC_…, GITHUB_…, RUNNER_…, ` +
          'PATH) or that the loader, shells and interpreters execute (LD_PRELOAD, BASH_ENV, NODE_OPTIONS, …) are not ' +
          `accepted. ${isNamespace ? inNamespaces : `A repository has at most ${maxSecrets} secrets.`}`,
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
        reply: { 200: Saved },
        problems: [...problems, 'token_limited', 'too_many_secrets', 'encryption_key_missing'],
        handle: ({ principal, found, params, body }) =>
          secrets.put(principal, found, params.secretName, new Sensitive(body.value)),
      }),
      route('DELETE', `${path}/secrets/:secretName`, {
        operationId: 'deleteSecret',
        tag: 'secrets',
        summary: 'Delete a secret',
        permission: 'secrets:write',
        find: findToChange,
        reply: { 204: nothing },
        problems: [...problems, 'token_limited', 'secret_not_found'],
        handle: ({ principal, found, params }) =>
          secrets.remove(principal, found, params.secretName),
      }),
    ]
  })
}

const inNamespaces =
  'Runs in all repositories of the namespace have the secret, except where the repository has one of the same name. A ' +
  `namespace has at most ${maxSecrets} secrets.`

function secretSchemas<P extends TProperties>(prefix: string, place: P) {
  const name = field.text('name of the secret')
  return [
    named(
      `${prefix}Secret`,
      Type.Object({
        name,
        ...place,
        createdAt: field.integer('milliseconds since the Unix epoch'),
        updatedAt: field.integer('when the value was last set'),
      }),
    ),
    named(
      `Saved${prefix}Secret`,
      Type.Object({ name, ...place, message: field.text('confirmation message') }),
    ),
  ] as const
}

const ofRepositories = secretSchemas('', { repoName: field.text('name of the repository') })
const ofNamespaces = secretSchemas('Namespace', {
  namespace: field.text('name of the namespace'),
})

export const [Secret] = ofRepositories
export const [NamespaceSecret] = ofNamespaces
