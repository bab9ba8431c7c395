import assert from 'node:assert/strict'
import { Client as McpClient, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { launcher } from './service.ts'

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
  const client = new McpClient({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  await client.connect(kind === 'http' ? overHttp({ url, token }) : overStdio({ url, token }))

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
  const env = { PATH: process.env.PATH ?? '', SVC_URL: url, SVC_TOKEN: token }
  return new StdioClientTransport({ command: launcher, args: ['mcp'], env })
}
