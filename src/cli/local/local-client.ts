import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { createAccessWatch } from '#access/access-watch.ts'
import { localPrincipal } from '#access/principal.ts'
import { createEventLog } from '#api/event-log/event-log.ts'
import { eventRoutes } from '#api/event-log/event-routes.ts'
import type { App } from '#app.ts'
import { newId } from '#base/ids.ts'
import type { Json } from '#base/json.ts'
import { Problem } from '#base/problem.ts'
import { auditRoutes } from '#events/audit/audit-routes.ts'
import { createOpenRequests } from '#http/connection/connections.ts'
import { createOperations } from '#http/serve/json-operations.ts'
import { createRequestLog } from '#http/serve/request-log.ts'
import { createRouteTable } from '#http/serve/route-table.ts'
import { sshKeyRoutes } from '#identity/ssh-keys/ssh-key-routes.ts'
import { tokenRoutes } from '#identity/tokens/token-routes.ts'
import { userRoutes } from '#identity/users/user-routes.ts'
import { deletedRepositoryRoutes } from '#repositories/deleted-repository-routes.ts'
import { namespaceRoutes } from '#repositories/namespaces/namespace-routes.ts'
import { namespaceUsageRoutes } from '#repositories/namespaces/namespace-usage-routes.ts'
import { repositoryRoutes } from '#repositories/repository-routes.ts'
import { secretRoutes } from '#secrets/secret-routes.ts'
import { toWorkflowPath } from '#workflows/commits/workflow-paths.ts'
import type { CommandInput } from '../operations/operation.ts'
import { type ApiClient, type ApiRequest, createApiClient } from '../servers/http-client.ts'

/** Operations that create or delete repositories, with which a starting server must not interfere. */
const changesRepositories = new Set([
  'createRepository',
  'deleteRepository',
  'restoreRepository',
  'purgeRepository',
])

/**
 * Performs operations of the API on a data directory, in this process. A repository that is created belongs to the user of
 * `--username`; all else is done by that of the machine, who may do everything, also when the disk is nearly full. Throws
 * Problems.
 */
export function createLocalClient(app: App, input: CommandInput): ApiClient {
  const routes = routesOf(app)
  const findRoutes = createRouteTable(routes)
  const { perform } = createOperations({
    routes,
    requestLog: createRequestLog({ log: app.log, requireParts: async () => {} }),
    async admit(_, caller, { permission: toPermission, find, params }) {
      const permission = toPermission()
      const { principal = localPrincipal } = caller
      if (permission === undefined || permission === 'run')
        return { principal, permission: undefined, found: undefined }
      return { principal, permission, found: await find?.({ principal, permission, params }) }
    },
    openRequests: createOpenRequests(),
    accessWatch: createAccessWatch({ recheck: app.recheckAccess }),
    requireSpace: async () => {},
    stopping: new AbortController().signal,
  })

  async function fetchJson({ method, path, query = {}, body, headers = {} }: ApiRequest) {
    const address = findRoutes(path)
    const route = address?.byMethod.get(method)
    if (!address || route?.kind !== 'json') throw new Error(`${method} ${path} needs a server`)
    const given = Object.entries(query).filter(([, value]) => value !== undefined)
    const parameters = new URLSearchParams(given.map(([name, value]) => [name, String(value)]))
    const { operationId } = route
    using _lock = changesRepositories.has(operationId) ? await app.changeRepositories() : undefined
    // A value encrypted with another key than the server's would be unusable in runs.
    if (operationId === 'putSecret') await app.assertKeysOpen()
    const isCreated = operationId === 'createRepository'
    const owner = input.option('username') ?? 'admin'
    const principal = isCreated ? await app.tokens.ownerNamed(owner) : localPrincipal
    let link: string | undefined
    const performed = perform(route, {
      requestId: newId(),
      isHead: false,
      headers: { accept: 'application/json', ...headers },
      caller: { address: '', principal },
      response: new ServerResponse(new IncomingMessage(new Socket())),
      publicOrigin: () => undefined,
      url: `${path}?${parameters}`,
      params: address.params,
      query: parameters,
      // Without the fields that are undefined, as in a request.
      readBody: async () => ({ body: body && JSON.parse(JSON.stringify(body)), isLate: false }),
      openBody() {
        throw new Error(`${operationId} takes a body that is not JSON`)
      },
      setStatus() {},
      setType() {},
      setHeader: (name, set) => {
        if (name === 'link') link = set
      },
    })
    const value = await performed.catch((error) => {
      throw inWords(error, input)
    })
    // A response is JSON by its schema.
    return { body: (value ?? null) as Json, link }
  }

  return createApiClient(app.address.http, fetchJson)
}

/** An error about values in words of the command line, as far as they were given there. */
function inWords(error: unknown, { option }: CommandInput): unknown {
  if (!(error instanceof Problem) || !error.errors) return error
  const sentences = error.errors.map((one) => {
    const parts = (one.pointer ?? one.parameter).split('/')
    const isItem = /^\d+$/.test(parts.at(-1) ?? '')
    const field = parts.at(isItem ? -2 : -1) ?? ''
    const word = field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
    const noun = isItem ? word.replace(/s$/, '') : word
    const [, value, form] = /^cannot be (".*"); it must be (.*)$/s.exec(one.detail) ?? []
    const article = /^[aeio]/.test(noun) ? 'an' : 'a'
    if (value) return `${value} is not accepted; ${article} ${noun} is ${form}`
    if (option(field) !== undefined) return `--${word} ${one.detail.replace('or null', 'or never')}`
    return /^[A-Z]/.test(one.detail) ? one.detail : undefined
  })
  return sentences.includes(undefined) ? error : new Problem(error.code, sentences.join(' '))
}

/** The routes that need no server. */
function routesOf({ repositories, secrets, auditLog, ...app }: App) {
  const { protections, collaborators, db, notifier } = app
  const needsServer = async () => {
    throw new Error('Default branches are changed by a server.')
  }
  return [
    ...repositoryRoutes({
      ...{ repositories, namespaces: app.namespaces, protections, collaborators },
      defaultBranches: { requireBranch: needsServer, changeDefaultBranch: needsServer },
      toWorkflowPath,
      findRuleWarnings: app.workflows.findRuleWarnings,
    }),
    ...deletedRepositoryRoutes(app.deletedRepositories),
    ...namespaceRoutes(app.namespaces),
    ...namespaceUsageRoutes(app),
    ...secretRoutes({ repositories, namespaces: app.namespaces, secrets }),
    ...userRoutes(app.users),
    ...tokenRoutes(app.tokens),
    ...sshKeyRoutes(app.sshKeys),
    ...auditRoutes({ auditLog, repositories }),
    ...eventRoutes(createEventLog({ db, notifier, repositories, refresh: async (one) => one })),
  ]
}
