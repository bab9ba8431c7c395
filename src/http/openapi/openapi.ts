import { type ProblemCode, type ProblemKind, problems } from '#base/problem.ts'
import { toReferences } from '../named-schemas.ts'
import { lfsContentType, problemContentType, statuses } from '../problem-response.ts'
import type { JsonRoute, Route } from '../route.ts'
import { eventStreamType } from '../server-sent-events.ts'
import { isOptional } from '../validation.ts'
import { linksOf } from './operation-links.ts'

type Options = { routes: Route[]; version: string }

/** The OpenAPI 3.1 document of all routes, without `servers`: https://spec.openapis.org/oas/v3.1.1.html */
export function toOpenApi({ routes, version }: Options) {
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    const path = toTemplate(route.path)
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: toOperation(route, routes) }
  }
  const schemas: Record<string, object> = { Problem: problemSchema }
  return {
    openapi: '3.1.1',
    info: {
      title: 'svc',
      version,
      description: 'Hosts Git repositories for people, automation and agents.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
    // First, because it fills the components.
    paths: toReferences(paths, schemas),
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'An API token: svc_…' },
        basic: {
          type: 'http',
          scheme: 'basic',
          description: 'Any user name, with an API token as the password.',
        },
      },
      schemas,
    },
  }
}

/** The problems of a route: its own, and those that its fields imply. */
export function problemsOf(route: Route): ProblemCode[] {
  const own: ProblemCode[] = [...(route.problems ?? []), 'headers_too_large']
  switch (route.kind) {
    case 'public':
      return [...own, 'invalid_request', ...(route.form ? formProblems : [])]
    case 'stream': {
      const body: ProblemCode[] = route.consumes ? ['unsupported_media_type', 'body_too_large'] : []
      return [...securedProblems, 'malformed_git_request', 'invalid_request', ...own, ...body]
    }
    case 'json': {
      const body: ProblemCode[] = route.method === 'GET' ? [] : bodyProblems
      const isLimitless = !route.find && !route.allowsLimited && route.permission !== 'run'
      const all = [
        ...securedProblems,
        ...(isLimitless ? (['token_limited'] as const) : []),
        'too_many_requests' as const,
        ...own,
        'invalid_request' as const,
        ...body,
      ]
      const isPossible = (code: ProblemCode) => route.permission || code !== 'permission_missing'
      return [...new Set(all)].filter((code) => own.includes(code) || isPossible(code))
    }
  }
}

const securedProblems: ProblemCode[] = [
  'token_required',
  'token_invalid',
  'permission_missing',
  'too_many_bad_tokens',
]

const bodyProblems: ProblemCode[] = [
  'malformed_request',
  'invalid_request',
  'unsupported_media_type',
  'body_too_large',
  'request_timed_out',
  'storage_full',
]

const formProblems: ProblemCode[] = [
  'too_many_requests',
  'too_many_bad_tokens',
  'unsupported_media_type',
  'body_too_large',
  'request_timed_out',
]

/** The problems that nearly every request can have. */
export const usualProblems: ReadonlySet<ProblemCode> = new Set([
  ...securedProblems,
  'too_many_requests',
  'headers_too_large',
  ...bodyProblems,
])

const otherDescriptions: Record<string, string> = {
  201: 'Created.',
  202: 'Accepted; the work continues after this response.',
  204: 'No content.',
}

const conflictSchema = {
  type: 'object',
  required: ['path', 'kinds', 'messages', 'binary', 'content', 'truncated'],
  properties: {
    path: { type: 'string' },
    kinds: {
      type: 'array',
      description: "the kinds of conflict, in Git's words, such as `contents` or `modify/delete`",
      items: { type: 'string' },
    },
    messages: { type: 'array', description: "Git's messages", items: { type: 'string' } },
    binary: { type: 'boolean', description: 'whether the file is not text' },
    content: {
      type: ['string', 'null'],
      description: 'the file with conflict markers; null when it is not text, or too long',
    },
    truncated: {
      type: 'boolean',
      description: 'whether the content is left out because of its size',
    },
  },
}

const problemSchema = {
  type: 'object',
  description: 'Problem details (RFC 9457).',
  required: ['type', 'title', 'status', 'detail', 'code'],
  properties: {
    type: { type: 'string', description: 'address of the documentation' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string', description: 'what went wrong and what to do' },
    code: { type: 'string', enum: Object.keys(problems) },
    errors: {
      type: 'array',
      description: 'the invalid fields and parameters of the request',
      items: {
        type: 'object',
        required: ['detail'],
        properties: {
          pointer: {
            type: 'string',
            description:
              'JSON pointer (RFC 6901) to a field of the body; of a workflow file, its path with line and column',
          },
          parameter: { type: 'string', description: 'name of a parameter, in place of a pointer' },
          in: { type: 'string', enum: ['path', 'query'], description: 'place of the parameter' },
          detail: { type: 'string', description: 'what is wrong, and what is accepted' },
        },
      },
    },
    head: {
      type: 'string',
      description:
        'the present value of a ref that has another one than expected; 40 zeros for none',
    },
    commit: { type: 'string', description: 'the commit that conflicts, of those that are rebased' },
    error: {
      type: 'string',
      description: 'the code of a failed token exchange (RFC 6749, section 5.2)',
    },
    error_description: { type: 'string', description: 'the detail again, beside that code' },
    renamedTo: { type: 'string', description: 'the present name of a repository that was renamed' },
    conflicts: {
      type: 'array',
      description: 'the files that conflict in a merge',
      items: conflictSchema,
    },
  },
}

function toOperation(route: Route, routes: Route[]) {
  return {
    operationId: route.operationId,
    tags: [route.tag],
    summary: route.summary,
    ...describe(route),
    security: securityOf(route),
    parameters: parametersOf(route),
    ...requestBodyOf(route),
    responses: { ...successOf(route, linksOf(route, routes)), ...failuresOf(route) },
  }
}

function describe(route: Route): { description?: string } {
  const needed = route.kind === 'json' ? (route.permission ?? 'any token') : undefined
  const permission = needed && `Permission: \`${needed}\`.`
  const description = [route.description, permission].filter(Boolean).join('\n\n')
  return description ? { description } : {}
}

function securityOf(route: Route): object[] {
  if (route.kind === 'public') return []
  if (route.kind === 'json') return [{ bearer: [] }]
  // The empty one is for public repositories.
  return [{ basic: [] }, { bearer: [] }, ...(route.allowsAnonymous ? [{}] : [])]
}

function parametersOf(route: Route): object[] {
  const names = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name)
  const inPath = names.map((name) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  if (route.kind === 'stream') {
    const { parameters, optionalParameters = [] } = route
    const query = parameters.map((name) => {
      return { name, in: 'query', required: !optionalParameters.includes(name) }
    })
    return [...inPath, ...query.map((one) => ({ ...one, schema: { type: 'string' } }))]
  }
  const inHeader = route.isConditional ? [ifNoneMatch] : []
  if (route.kind !== 'json' || !route.query) return [...inPath, ...inHeader]
  // A query's schema is an object whose properties are its parameters.
  const { properties = {}, required = [] } = route.query as {
    properties?: Record<string, object>
    required?: string[]
  }
  const inQuery = Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }))
  return [...inPath, ...inQuery, ...inHeader]
}

const ifNoneMatch = {
  name: 'If-None-Match',
  in: 'header',
  description: 'The `ETag` of an earlier response',
  schema: { type: 'string' },
}

const notModified = { 304: { description: 'The response with the given `ETag` is still current.' } }

function requestBodyOf(route: Route): object {
  if (route.kind === 'json' && route.body) {
    const content = { 'application/json': { schema: route.body } }
    return { requestBody: { required: !isOptional(route.body), content } }
  }
  if (route.kind === 'public' && route.form) {
    const content = { 'application/x-www-form-urlencoded': { schema: route.form } }
    return { requestBody: { required: true, content } }
  }
  if (route.kind !== 'public' && route.consumes) {
    return { requestBody: { required: true, content: { [route.consumes]: {} } } }
  }
  return {}
}

function successOf(route: Route, links: object | undefined): object {
  if (route.produces === undefined) return {}
  const type = toMediaType(route.produces)
  if (route.kind === 'json') {
    const stream = route.eventStream && {
      [toMediaType(eventStreamType)]: {
        schema: { type: 'string', description: route.eventStream },
      },
    }
    const json = route.jsonReply && { 'application/json': { schema: route.jsonReply } }
    const contentOf = (reply: JsonRoute['reply']) => {
      const types = [type, ...route.otherTypes].map((one) => [one, { schema: reply }])
      return reply && { content: { ...Object.fromEntries(types), ...json, ...stream } }
    }
    const others = Object.entries(route.otherReplies).map(([status, reply]) => [
      status,
      { description: otherDescriptions[status] ?? 'Success.', ...contentOf(reply) },
    ])
    return {
      [route.status]: {
        description: 'Success.',
        ...contentOf(route.reply),
        ...(links && { links }),
      },
      ...Object.fromEntries(others),
      ...(route.isConditional && notModified),
    }
  }
  const schema = route.kind === 'public' ? route.reply : undefined
  return { 200: { description: 'Success.', content: { [type]: schema ? { schema } : {} } } }
}

function failuresOf(route: Route): object {
  const byStatus = Map.groupBy(problemsOf(route), (code) => statuses[kindOf(code)])
  const type = problemTypeOf(route)
  const content =
    route.kind === 'stream' ? {} : { schema: { $ref: '#/components/schemas/Problem' } }
  const known = [...byStatus].map(([status, codes]) => [
    status,
    { description: codes.map((code) => `\`${code}\``).join(', '), content: { [type]: content } },
  ])
  const other = { description: 'Any other problem.', content: { [type]: content } }
  return { ...Object.fromEntries(known), default: other }
}

function problemTypeOf(route: Route): string {
  if (route.kind !== 'stream') return problemContentType
  return route.problemFormat === 'git-lfs' ? lfsContentType : 'text/plain'
}

function kindOf(code: ProblemCode): ProblemKind {
  return problems[code].kind
}

function toTemplate(path: string): string {
  return path.replace(/:(\w+)\*?/g, '{$1}')
}

function toMediaType(contentType: string): string {
  return contentType.split(';', 1)[0] ?? ''
}
