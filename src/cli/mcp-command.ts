import { type Readable, Transform, type Writable } from 'node:stream'
import { type CallToolResult, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio'
import {
  createServerClient,
  describeError,
  RefusedRequestError,
  type ServerClient,
} from '#actions/runner/server-client.ts'
import { createMcpServer } from '#api/mcp/mcp-server.ts'
import type { ServerAccess } from './servers/connect.ts'

type Options = {
  version: string
  server: ServerAccess
  input: Readable
  output: Writable
  warn: (text: string) => void
}

type Response = {
  result?: object
  error?: { code: number; message: string }
}

// Longer than the longest wait of a tool.
const timeoutMs = 330_000

/** `svc mcp`: serves MCP on standard input and output until its input ends. The server's /mcp answers. */
export function serveMcpOnStdio({ version, server, input, output, warn }: Options): void {
  const client = createServerClient(server.url)
  const upstream = { client, server }
  serveStdio(
    () =>
      createMcpServer({
        version,
        listTools: async (signal) => {
          const { tools } = await call(upstream, { method: 'tools/list' }, signal)
          return tools as object[]
        },
        callTool: async (name, given, signal) => {
          const params = { name, arguments: given }
          try {
            const result = await call(upstream, { method: 'tools/call', params }, signal)
            // The result of the same tool, in the same protocol.
            return result as CallToolResult
          } catch (error) {
            if (error instanceof ProtocolError) throw error
            return { content: [{ type: 'text', text: explain(server, error) }], isError: true }
          }
        },
      }),
    {
      transport: new StdioServerTransport(input.pipe(createFrameCheck(output)), output),
      maxSubscriptions: 0,
      onerror: (error) => warn(`svc mcp: ${error.message}\n`),
    },
  )
}

type Upstream = { client: ServerClient; server: ServerAccess }

async function call(
  { client, server }: Upstream,
  message: object,
  signal: AbortSignal,
): Promise<Record<string, unknown>> {
  const response = await client
    .request({
      method: 'POST',
      path: '/mcp',
      token: server.token,
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
      timeoutMs,
      signal,
    })
    .catch((error) => {
      throw new Error(explain(server, error), { cause: error })
    })
  const { result, error }: Response = Object(response)
  if (error) throw new ProtocolError(error.code, error.message)
  if (typeof result === 'object') return { ...result }
  throw new ProtocolError(ProtocolErrorCode.InternalError, notService(server))
}

function explain({ url }: ServerAccess, error: unknown): string {
  if (error instanceof Error && error.cause !== undefined) return error.message
  if (!(error instanceof RefusedRequestError)) return `${url.href}: ${describeError(error)}`
  if (!error.isOfService || error.status === 404) return notService({ url })
  return `${error.status}: ${error.message}`
}

function notService({ url }: Pick<ServerAccess, 'url'>): string {
  return `There is no MCP server of svc at ${url.href}: SVC_URL is wrong, or the server is too old.`
}

// The SDK gives up a connection whose message is longer.
const maxLength = 10 * 1024 * 1024

type Frame = {
  jsonrpc?: unknown
  id?: unknown
  method?: unknown
  result?: unknown
  error?: unknown
}

/** Passes on the frames of JSON-RPC, a line each, and answers those that are none, which the SDK ignores. */
function createFrameCheck(output: Writable): Transform {
  let rest = ''
  return new Transform({
    decodeStrings: false,
    transform(chunk: Buffer | string, _encoding, done) {
      const lines = (rest + String(chunk)).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const fault = faultOf(line)
        if (fault) output.write(`${JSON.stringify({ jsonrpc: '2.0', ...fault })}\n`)
        else if (line.trim() !== '') this.push(`${line}\n`)
      }
      if (rest.length > maxLength) {
        this.push(rest)
        rest = ''
      }
      done()
    },
  })
}

function faultOf(line: string) {
  if (line.trim() === '') return undefined
  let frame: Frame
  try {
    const value: unknown = JSON.parse(line)
    frame = Object(value)
  } catch {
    return { id: null, error: { code: -32_700, message: 'The line is not JSON.' } }
  }
  const { id } = frame
  const isId = typeof id === 'string' || typeof id === 'number'
  const isCall = typeof frame.method === 'string'
  const isResponse = frame.result !== undefined || frame.error !== undefined
  if (frame.jsonrpc === '2.0' && (isId || id === undefined) && (isCall || isResponse))
    return undefined
  const message =
    'The line is not a message of JSON-RPC 2.0 with "method" and a text or number as "id".'
  return { id: isId ? id : null, error: { code: -32_600, message } }
}
