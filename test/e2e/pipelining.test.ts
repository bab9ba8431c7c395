import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectRaw } from '../support/raw-http.ts'
import { startService } from '../support/service.ts'

const responses = /^HTTP\/1\.1 (\d+) /gm

test('pipelined requests get responses in order', async () => {
  await using service = await startService()
  using connection = await connectRaw(service.url)
  const paths = ['/health', '/nowhere', '/repos', '/repos/x.git/info/refs?service=git-upload-pack']
  const lines = Array.from({ length: 24 }, () => paths).flat()
  for (const path of lines) connection.request(`GET ${path}`)
  connection.request('DELETE /health', { connection: 'close' })
  const statuses = [...(await connection.end()).matchAll(responses)].map(([, status]) => status)
  assert.deepEqual(statuses, [
    ...lines.flatMap((_, at) => ['200', '404', '401', '401'][at % 4] ?? []),
    '405',
  ])
})

test('a connection with too many waiting requests is closed', async () => {
  await using service = await startService()
  using connection = await connectRaw(service.url)
  const { adminToken } = service
  connection.request('GET /events?wait=60&after=latest', { authorization: `Bearer ${adminToken}` })
  for (let count = 0; count < 150; count++) connection.request('GET /health')
  assert.equal(await connection.end(), '')
  assert.equal((await fetch(`${service.url}/health`)).status, 200)
})
