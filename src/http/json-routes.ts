import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Access, AccessWatch } from '../access/access-watch.ts'
import type { PlainSettings } from '../config/settings.ts'
import type { Admit, Caller } from './admission.ts'
import { expectsContinue, type OpenRequests } from './connections.ts'
import { assertDeclared, readJsonBody } from './json-body.ts'
import { type JsonRoute, jsonContentType, type PublicOrigin } from './route.ts'
import { checkBody, checkQuery, queryOf } from './validation.ts'
import { ResponseWatch } from './watch-response.ts'

type Dependencies = {
  settings: Pick<PlainSettings, 'jsonBodyMaxBytes' | 'bodySeconds'>
  admit: Admit
  openRequests: Pick<OpenRequests, 'controllerOf'>
  accessWatch: AccessWatch
  /** Throws a Problem when the disk is nearly full. */
  requireSpace: () => Promise<void>
  /** Aborted when the server stops. */
  stopping: AbortSignal
}

type Exchange = { request: FastifyRequest; reply: FastifyReply; caller: Caller } & PublicOrigin

// A DELETE frees space, so it needs none.
const writing = new Set(['POST', 'PUT', 'PATCH'])

/** Serves JSON routes: admits the caller, validates query and body, and calls the handler. */
export function createJsonRoutes(dependencies: Dependencies) {
  const { settings, admit, openRequests, accessWatch, requireSpace, stopping } = dependencies
  const bodyLimits = {
    maxBytes: settings.jsonBodyMaxBytes,
    timeoutMs: settings.bodySeconds * 1000,
  }

  async function readBody(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    // Before `100 Continue`, so that a body that is too large is never sent.
    assertDeclared(request.raw, bodyLimits)
    if (request.method === 'GET' || request.method === 'HEAD') return undefined
    if (expectsContinue(request.raw)) reply.raw.writeContinue()
    return readJsonBody(request.raw, bodyLimits)
  }

  return async (route: JsonRoute, { request, reply, caller, publicOrigin }: Exchange) => {
    const { permission, find } = route
    const params = paramsOf(route, request)
    const admitted = await admit(request.raw, caller, {
      scheme: 'bearer',
      permission: () => permission,
      find,
      params,
      allowsLimited: route.allowsLimited,
      isRateLimited: true,
      via: 'api',
    })
    const { principal, found } = admitted
    // The results of runs are accepted even when the disk is nearly full.
    if (writing.has(route.method) && permission !== 'run') await requireSpace()
    const query = checkQuery(route.query, queryOf(request))
    const body = checkBody(route.body, await readBody(request, reply))
    reply.status(route.status).type(route.produces)
    let created: AbortController | undefined
    const abortController = () => {
      created ??= openRequests.controllerOf(reply.raw)
      return created
    }
    // `find` of a long-lived route returns a repository or nothing.
    const repository = found as { id: string } | undefined
    const watch = route.isLongLived
      ? new ResponseWatch(reply.raw, {
          accessWatch,
          access: { principal, permission: admitted.permission, repository },
          abortController: abortController(),
        })
      : undefined
    const context = {
      principal,
      params,
      query,
      body,
      found,
      url: request.url,
      publicOrigin,
      header: (name: string) => request.headers[name]?.toString(),
      setHeader: (name: string, value: string) => void reply.header(name, value),
      setStatus: (status: number) => void reply.status(status),
      setType: (type: string) => void reply.type(type),
      clientSignal: () => abortController().signal,
      waitSignal: () => {
        assertLongLived(route)
        return AbortSignal.any([stopping, abortController().signal])
      },
      requireAccess: (access: Access) => void watch?.access.push(access),
    } satisfies Parameters<JsonRoute['handle']>[0]
    const handled = route.handle(context)
    const result = await (watch ? watch.guard(handled) : handled)
    if (result instanceof Readable) assertLongLived(route)
    return sendResult(route, { request, reply, result })
  }
}

function sendResult(
  route: JsonRoute,
  { request, reply, result }: { request: FastifyRequest; reply: FastifyReply; result: unknown },
) {
  if (route.reply === undefined || reply.statusCode === 204)
    return reply.removeHeader('content-type').send()
  if (result instanceof Readable && request.method === 'HEAD') {
    // The stream would not be read, and may be endless.
    result.destroy()
    return reply.send()
  }
  const isJson = route.produces === jsonContentType && !(result instanceof Readable)
  return reply.send(isJson ? `${JSON.stringify(result)}\n` : result)
}

function assertLongLived({ method, path, isLongLived }: JsonRoute): void {
  if (!isLongLived) throw new Error(`${method} ${path} is not declared as long-lived`)
}

function paramsOf(route: JsonRoute, request: FastifyRequest): Record<string, string> {
  // The router sets each parameter to a string.
  const { '*': rest, ...params } = request.params as Record<string, string>
  const [, name] = /:(\w+)\*$/.exec(route.path) ?? []
  return name === undefined ? params : { ...params, [name]: rest ?? '' }
}
