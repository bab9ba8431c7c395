import { type Static, Type } from 'typebox'
import { requireAllRepositories } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { once } from '#base/once.ts'
import { Problem, problemIn } from '#base/problem.ts'
import { closed } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import {
  type JsonRoute,
  nothing,
  type OperationInput,
  type OperationResult,
  type Route,
  route,
} from '#http/route.ts'
import { requireGranted } from '#http/serve/admission.ts'
import { annotationsOf, type McpTool, mcpTools } from './mcp-tools.ts'
import { toInputSchema, toOperationInput } from './tool-input.ts'
import { type ToolResult, toToolError, toToolResult } from './tool-output.ts'

type Dependencies = { routes: Route[]; version: string; baseUrl: () => string }

type Subcall = (operationId: string, input: OperationInput) => Promise<OperationResult>

/** The route of the MCP server, whose tools are operations of the other routes. */
export function mcpRoutes({ routes, version, baseUrl }: Dependencies) {
  const tools = once(() => mcpTools.map((tool) => ({ tool, route: routeOf(tool, routes) })))
  const descriptions = once(() =>
    tools().map(({ tool, route: operation }) => ({
      operation,
      description: {
        name: tool.name,
        title: tool.title,
        description: tool.description,
        inputSchema: toInputSchema(tool, operation),
        annotations: annotationsOf(tool),
      },
    })),
  )

  /** The tools whose operations the permissions and limits of a token allow. */
  function listTools(principal: Principal): object[] {
    return descriptions()
      .filter(({ operation }) => isGranted(principal, operation))
      .map(({ description }) => description)
  }

  async function callTool(
    subcall: Subcall,
    name: string,
    args: Record<string, unknown>,
  ): Promise<ToolResult | undefined> {
    const called = tools().find(({ tool }) => tool.name === name)
    if (!called) return undefined
    try {
      const input = toOperationInput(called.tool, called.route, args)
      return await toToolResult(await subcall(called.tool.operationId, input), input.query)
    } catch (error) {
      const problem = problemIn(error)
      if (problem) return toToolError(problem)
      throw error
    }
  }

  return [
    route('POST', '/mcp', {
      operationId: 'callMcp',
      tag: 'agents',
      summary: 'Call the MCP server',
      description:
        'The Model Context Protocol over streamable HTTP, for agents: https://modelcontextprotocol.io/. Each request is ' +
        'one JSON-RPC message; there are no sessions, streams or batches. Errors of the protocol are JSON-RPC errors, ' +
        'some with a status other than 200. A notification is accepted with 202. Tools call the operations of this ' +
        'API with the token of the request, so they have its rights and limits; `tools/list` omits those that they rule out. A request with an `Origin` header is ' +
        'accepted only from the address of the service.',
      permission: 'any',
      allowsLimited: true,
      isLongLived: true,
      isServedWhenFull: true,
      body: RpcMessage,
      reply: { 200: RpcResponse, 202: nothing },
      problems: ['origin_forbidden'],
      handle: async ({
        principal,
        body,
        header,
        publicOrigin,
        clientSignal,
        setStatus,
        subcall,
      }) => {
        const origin = new URL(publicOrigin() ?? baseUrl()).origin
        assertOrigin(header('origin'), origin)
        // Loaded on demand to save memory and start-up time.
        const { handleMcp } = await import('./mcp-handler.ts')
        const { createMcpServer } = await import('./mcp-server.ts')
        let bug: unknown
        const createServer = () =>
          createMcpServer({
            version,
            listTools: async () => listTools(principal),
            callTool: (name, args) =>
              callTool(subcall, name, args).catch((error) => {
                bug = error
                throw error
              }),
          })
        const url = `${origin}/mcp`
        const signal = clientSignal()
        const response = await handleMcp({ url, header, message: body, signal, createServer })
        // Not a JSON-RPC error, which would contain the details.
        if (bug !== undefined) throw bug
        setStatus(response.status)
        // The SDK's responses are JSON-RPC.
        return response.body as Static<typeof RpcResponse> | undefined
      },
    }),
  ]
}

function isGranted(principal: Principal, operation: JsonRoute): boolean {
  try {
    requireGranted(principal, operation)
    // What a namespace has concerns all of its repositories.
    if (operation.path.startsWith('/namespaces/')) requireAllRepositories(principal)
    return true
  } catch (error) {
    if (error instanceof Problem) return false
    throw error
  }
}

function routeOf({ name, operationId }: McpTool, routes: Route[]): JsonRoute {
  const operation = routes.find((candidate) => candidate.operationId === operationId)
  if (operation?.kind === 'json') return operation
  throw new Error(`The tool ${name} has no operation ${operationId}.`)
}

// A page in a browser that reaches this service by DNS rebinding has the origin of its own address.
function assertOrigin(origin: string | undefined, expected: string): void {
  if (origin === undefined || origin === expected) return
  throw new Problem(
    'origin_forbidden',
    `Requests from pages of other origins are not accepted, only from ${expected}.`,
  )
}

const Id = Type.Union([Type.String(), Type.Integer()], {
  description: 'id of the request, text or an integer; a notification has none',
})

const RpcMessage = named(
  'RpcMessage',
  Type.Object(
    {
      jsonrpc: Type.Literal('2.0', { description: '`2.0`' }),
      id: Type.Optional(Id),
      method: Type.String({ description: 'for instance `tools/call`', maxLength: 200 }),
      params: Type.Optional(
        Type.Unsafe<Record<string, unknown>>({
          type: 'object',
          description: 'the parameters of the method',
        }),
      ),
    },
    closed,
  ),
)

const RpcResponse = named(
  'RpcResponse',
  Type.Object({
    jsonrpc: Type.Literal('2.0'),
    id: Type.Optional(Type.Union([Type.String(), Type.Integer(), Type.Null()])),
    result: Type.Optional(Type.Unsafe<Record<string, unknown>>({ type: 'object' })),
    error: Type.Optional(Type.Object({ code: Type.Integer(), message: Type.String() })),
  }),
)
