import {
  createMcpHandler,
  isLegacyRequest,
  type Server,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'

type McpRequest = {
  url: string
  header: (name: string) => string | undefined
  /** One JSON-RPC message. */
  message: unknown
  signal: AbortSignal
  createServer: () => Server
}

type McpResponse = { status: number; body: unknown }

const forwardedHeaders = ['mcp-protocol-version', 'mcp-method', 'mcp-name']

/**
 * Handles one message of MCP's streamable HTTP transport, of the revision 2026-07-28 or an earlier one. There are no
 * sessions, so any node can handle it, and no streams: the response is one message, or none.
 */
export async function handleMcp(mcpRequest: McpRequest): Promise<McpResponse> {
  const { message, signal, createServer } = mcpRequest
  const request = toRequest(mcpRequest)
  const response = (await isLegacyRequest(request, message))
    ? await handleLegacy(request, mcpRequest)
    : await createMcpHandler(createServer, { legacy: 'reject', maxSubscriptions: 0 }).fetch(
        request,
        {
          parsedBody: message,
        },
      )
  signal.throwIfAborted()
  const text = await response.text()
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
}

async function handleLegacy(request: Request, { message, createServer }: McpRequest) {
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
  const server = createServer()
  await server.connect(transport)
  try {
    return await transport.handleRequest(request, { parsedBody: message })
  } finally {
    await server.close()
  }
}

function toRequest({ url, header, signal }: McpRequest): Request {
  const headers = new Headers({
    'content-type': 'application/json',
    // Responses are JSON for clients that accept only one of these, too.
    accept: 'application/json, text/event-stream',
  })
  for (const name of forwardedHeaders) {
    const value = header(name)
    if (value !== undefined) headers.set(name, value)
  }
  return new Request(url, { method: 'POST', headers, signal })
}
