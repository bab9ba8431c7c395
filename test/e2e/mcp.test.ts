import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { type Service, startService } from '../support/service.ts'

let service: Service

before(async () => {
  service = await startService()
})
after(() => service[Symbol.asyncDispose]())

test('an agent lists repositories', async () => {
  await service.admin.post('/repos', { name: 'site' })
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${service.url}/mcp`), {
      requestInit: { headers: { authorization: `Bearer ${service.adminToken}` } },
    }),
  )
  console.error((await client.listTools()).tools.map((t) => t.name))
  const result = await client.callTool({ name: 'list_repositories', arguments: {} })
  console.error(JSON.stringify(result), client.getServerVersion())
  assert.ok(!result.isError)
  await client.close()
})
