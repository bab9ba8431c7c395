import { type TProperties, Type } from 'typebox'
import { NamespaceName, RepositoryName } from '#access/names.ts'
import type { Permission } from '#access/permissions.ts'
import { closed, field, textForm } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { nothing, route } from '#http/route.ts'
import { LimitedRefs, LimitedRepositories, limitFields } from '../tokens/token-routes.ts'
import { type TrustRules, workloadPermissions } from './trust-rules.ts'

/** The routes of trust rules. */
export function trustRuleRoutes(trustRules: TrustRules) {
  return [
    route('GET', '/trust-rules', {
      operationId: 'listTrustRules',
      tag: 'trust rules',
      summary: 'List trust rules',
      description:
        'Lists the rules of a repository for its owner, those of a namespace for its members with the role `admin`, or else ' +
        "those that the token's user created, oldest first. An admin token lists all.",
      permission: 'collaborator:read',
      query: Type.Object({
        ...PageQuery.properties,
        repository: Type.Optional(RepositoryName),
        namespace: Type.Optional(NamespaceName),
      }),
      reply: { 200: Type.Array(TrustRule) },
      problems: [
        'repository_not_found',
        'owner_required',
        'namespace_not_found',
        'role_insufficient',
      ],
      handle: (request) =>
        paged(request, (page) => {
          const { repository, namespace } = request.query
          return trustRules.list(request.principal, { repository, namespace, page })
        }),
    }),
    route('POST', '/trust-rules', {
      operationId: 'createTrustRule',
      tag: 'trust rules',
      summary: 'Create a trust rule',
      description:
        'Workloads whose JWT has the issuer, the audience and the claims exchange it for a token of an hour for the ' +
        'repositories, with `POST /tokens/exchange`. The token cannot change settings. The rule is in force as long as its ' +
        'creator could create it: is not disabled, and owns the repositories or has an admin token. A rule of a namespace ' +
        'takes the role `admin` there, and is for all of its repositories, or some, as long as they are in it. To change a ' +
        'rule, delete it and create another one.',
      permission: 'collaborator:write',
      body: NewTrustRule,
      reply: { 201: TrustRule },
      problems: [
        'permission_missing',
        'repository_not_found',
        'namespace_not_found',
        'role_insufficient',
        'owner_required',
        'outbound_forbidden',
        'outbound_unresolved',
        'too_many_trust_rules',
      ],
      handle: ({ principal, body, admitAgain }) => trustRules.create(principal, body, admitAgain),
    }),
    route('GET', '/trust-rules/:id', {
      operationId: 'getTrustRule',
      tag: 'trust rules',
      summary: 'Describe a trust rule',
      permission: 'collaborator:read',
      reply: { 200: TrustRule },
      problems: ['trust_rule_not_found'],
      handle: ({ principal, params }) => trustRules.find(principal, params.id),
    }),
    route('DELETE', '/trust-rules/:id', {
      operationId: 'deleteTrustRule',
      tag: 'trust rules',
      summary: 'Delete a trust rule',
      description:
        'Its tokens end with it. Each owner of one of its repositories can delete it, or if it is of a namespace, each ' +
        'member with the role `admin`.',
      permission: 'collaborator:write',
      reply: { 204: nothing },
      problems: ['trust_rule_not_found'],
      handle: async ({ principal, params }) => {
        await trustRules.remove(principal, params.id)
        return undefined
      },
    }),
  ]
}

const claimMaxLength = 500
const maxClaims = 20

const NewTrustRule = Type.Object(
  {
    name: Type.String({
      ...textForm('1 to 40 of A-Z a-z 0-9 . _ -', '^[A-Za-z0-9._-]{1,40}$'),
      description: 'name that the journal shows of its workloads: 1 to 40 of A-Z a-z 0-9 . _ -',
      maxLength: 40,
    }),
    issuer: Type.String({
      description: 'the `iss` of the JWTs: an https address, whose keys are read from there',
      minLength: 1,
      maxLength: 250,
    }),
    audience: Type.Optional(
      Type.String({
        ...textForm(
          '1 to 250 characters, none of them a control character',
          '^[^\\u0000-\\u001f\\u007f-\\u009f]{1,250}$',
        ),
        description: 'the only `aud` of the JWTs; the address of this service when omitted',
        maxLength: 250,
      }),
    ),
    claims: Type.Unsafe<Record<string, string>>({
      type: 'object',
      description:
        'patterns of further claims by their names, such as `{"sub": "repo:acme/site:ref:refs/heads/*"}`; `*` matches any ' +
        'characters. One of them must name the workload',
      additionalProperties: { type: 'string', maxLength: claimMaxLength },
      propertyNames: { maxLength: 100 },
      maxProperties: maxClaims,
    }),
    namespace: Type.Optional({
      ...NamespaceName,
      description:
        'namespace that it is of: for all of its repositories, or those in it that `repositories` has',
    }),
    repositories: Type.Optional({
      ...LimitedRepositories,
      description:
        'names of the repositories, 1 to 100; required without a namespace. Kept by id, so a rename changes nothing',
    }),
    refs: Type.Optional(LimitedRefs),
    permissions: Type.Array(
      Type.Unsafe<Permission>({
        type: 'string',
        enum: workloadPermissions,
        description: workloadPermissions.join(', '),
      }),
      {
        description: `some of ${workloadPermissions.join(', ')}`,
        minItems: 1,
        maxItems: workloadPermissions.length,
      },
    ),
  },
  closed,
)

export const TrustRule = named(
  'TrustRule',
  Type.Object({
    id: field.text('opaque id'),
    name: field.text('name that the journal shows of its workloads'),
    username: field.text('user who created it'),
    issuer: field.text('the `iss` of the JWTs'),
    audience: field.text('the only `aud` of the JWTs'),
    claims: Type.Record(Type.String(), Type.String(), {
      description: 'patterns of further claims',
    }),
    namespace: field.orNull(
      Type.String(),
      'the namespace that it is of; null for none, and for those who no longer have the role `admin` there',
    ),
    repositories: field.orNull(
      Type.Array(Type.String()),
      'the repositories, without those that the caller cannot see; null for all of the namespace',
    ),
    refs: limitFields.refs,
    permissions: field.texts('permissions'),
    inForce: field.boolean('whether its creator could create it now'),
    createdAt: field.integer('milliseconds since the Unix epoch'),
    lastUsedAt: field.orNull(Type.Integer(), 'when a token was last exchanged; null for never'),
    lastRefusedAt: field.orNull(
      Type.Integer(),
      'when it last did not match a JWT that its issuer had signed; null for never',
    ),
    lastRefusal: field.orNull(Type.String(), 'why it did not match'),
  } satisfies TProperties),
)
