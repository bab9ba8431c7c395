import assert from 'node:assert/strict'
import { Client as McpClient, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { launcher } from './service.ts'

type Transport = ReturnType<typeof overHttp> | ReturnType<typeof overStdio>
type Server = { url: string; token: string }

export type Agent = Awaited<ReturnType<typeof connectAgent>>

export const transports = ['http', 'stdio'] as const
export type TransportKind = (typeof transports)[number]

/** Connects the official client to /mcp, or to `svc mcp`. */
export async function connectAgent(
  kind: TransportKind,
  { url, token }: Server,
  mode: 'legacy' | 'auto' = 'auto',
) {
  return connectOver(kind === 'http' ? overHttp({ url, token }) : overStdio({ url, token }), mode)
}

/** Connects the official client to `svc mcp` with an environment. */
export const connectStdio = (env: Record<string, string>) => connectOver(stdioWith(env), 'auto')

async function connectOver(transport: Transport, mode: 'legacy' | 'auto') {
  const client = new McpClient({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  await client.connect(transport)

  async function call(name: string, given: Record<string, unknown> = {}) {
    const { content, isError = false } = await client.callTool({ name, arguments: given })
    const texts = content.map((part) => (part.type === 'text' ? part.text : ''))
    return { isError, texts, text: texts[0] ?? '' }
  }

  return {
    client,
    call,
    /** Calls a tool that succeeds; its result. */
    async use(name: string, given?: Record<string, unknown>) {
      const { isError, text } = await call(name, given)
      assert.equal(isError, false, `${name}: ${text}`)
      return JSON.parse(text)
    },
    /** Calls a tool that is refused; the code of the problem, or all that is said. */
    async refusal(name: string, given?: Record<string, unknown>): Promise<string> {
      const { isError, text } = await call(name, given)
      assert.equal(isError, true, `${name}: ${text}`)
      return text.startsWith('{') ? JSON.parse(text).code : text
    },
    [Symbol.asyncDispose]: () => client.close(),
  }
}

function overHttp({ url, token }: Server) {
  const headers = { authorization: `Bearer ${token}` }
  return new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } })
}

function overStdio({ url, token }: Server) {
  return stdioWith({ PATH: process.env.PATH ?? '', SVC_URL: url, SVC_TOKEN: token })
}

function stdioWith(env: Record<string, string>) {
  return new StdioClientTransport({ command: launcher, args: ['mcp'], env })
}
