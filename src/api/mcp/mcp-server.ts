import {
  type CallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type Tool,
} from '@modelcontextprotocol/server'

type Options = {
  version: string
  /** Returns tools in the form of the protocol. */
  listTools: (signal: AbortSignal) => Promise<object[]>
  /** Returns undefined for an unknown tool. */
  callTool: (
    name: string,
    args: Record<string, unknown>,
    signal: AbortSignal,
  ) => Promise<CallToolResult | undefined>
}

/** Creates an MCP server for one request or connection. */
export function createMcpServer({ version, listTools, callTool }: Options): Server {
  const server = new Server(
    { name: 'svc', title: 'svc', version },
    { capabilities: { tools: {} }, instructions, jsonSchemaValidator: noValidator },
  )
  server.setRequestHandler('tools/list', async (_, { mcpReq }) => ({
    // The type of the SDK is narrower for the values of JSON schemas.
    tools: (await listTools(mcpReq.signal)) as Tool[],
  }))
  server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
    const result = await callTool(params.name, params.arguments ?? {}, mcpReq.signal)
    if (result) return result
    const name = JSON.stringify(params.name.slice(0, 100))
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool ${name}.`)
  })
  return server
}

const instructions =
  'svc hosts Git repositories and runs their workflows. Tools have the rights of the token. Read ' +
  'files with list_files and read_file, and write them with git: get_repository has the address; any user name, and the token as the password. An error has a code, ' +
  'and a detail that says what to do.'

// Validates only replies of users to questions of a server, and this server has none. The default compiles schemas.
const noValidator = {
  getValidator: () => () => {
    throw new Error('not supported')
  },
}
