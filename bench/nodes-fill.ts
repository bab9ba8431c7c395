import { execFile } from 'node:child_process'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { AwsClient } from 'aws4fetch'
import { elementsOf } from '#repositories/s3/xml-elements.ts'
import type { Fixtures } from './fixtures.ts'
import type { Row } from './rows.ts'
import type { Svc } from './svc.ts'
import type { Workspace } from './workspace.ts'

const execute = promisify(execFile)

type Options = {
  fixtures: Pick<Fixtures, 'bulk'>
  startNode: (name: string, env?: Record<string, string>) => Promise<Svc>
  /** The address of the bucket with credentials, in the form of SVC_TEST_S3. */
  bucket: string
  rounds: number
}

const partBytes = 16 * 1024 * 1024
// As many as svc has connections for a download.
const parallelParts = 8
// A second after its start, a server collects the garbage of it once.
const startMs = 2000

/**
 * Compares how an empty node gets a large repository with curl, which gets its files in parts, several at a time. The
 * start of the node and its first request, which have a row of their own, are not part of it.
 */
export async function measureFill(
  workspace: Workspace,
  { fixtures: { bulk }, startNode, bucket, rounds }: Options,
): Promise<Row> {
  // Maintenance of what was pushed would take the cores meanwhile.
  const withoutMaintenance = { SVC_MAINTENANCE_PUSHES: 'off' }
  await using node = await startNode('pushed', withoutMaintenance)
  const address = await node.host.create('filled')
  const push = ['-C', bulk.path, 'push', '--quiet', address, `${bulk.ref}:refs/heads/bulk`]
  await workspace.git(push, { config: bulk.config })
  const { id } = await node.call('GET', '/repos/filled')
  await node.host.create('small')
  const times = { svc: [] as number[], peer: [] as number[] }
  for (let round = 0; round < rounds; round++) {
    await using empty = await startNode('filled', withoutMaintenance)
    await empty.call('GET', '/repos/small')
    await sleep(startMs)
    const startedAt = performance.now()
    await empty.call('GET', '/repos/filled')
    times.svc.push(performance.now() - startedAt)
    await empty.stop()
    await rm(join(workspace.folder, 'data-filled'), { recursive: true })
    times.peer.push(await timeCurl(bucket, id, join(workspace.folder, 'parts')))
  }
  await node.host.remove('filled')
  await node.host.remove('small')
  await node.stop()
  return {
    name: 'nodes: an empty node gets 256 MiB, beside curl',
    unit: 'ms',
    values: { svc: medianOf(times.svc), peer: medianOf(times.peer) },
    rounds,
  }
}

/** Gets all files of a repository from its bucket by curl, in ranges; the time in ms. */
async function timeCurl(bucket: string, id: string, folder: string): Promise<number> {
  const address = new URL(bucket)
  const client = new AwsClient({
    accessKeyId: address.username,
    secretAccessKey: address.password,
    service: 's3',
    region: 'us-east-1',
  })
  const base = `${address.searchParams.get('endpoint')}/${address.hostname}`
  const listing = await (await client.fetch(`${base}?list-type=2&prefix=${id}/`)).text()
  const keys = [...elementsOf(listing, 'Key')]
  const sizes = [...elementsOf(listing, 'Size')].map(Number)
  const transfers: string[][] = []
  for (const [index, key] of keys.entries()) {
    const { url } = await client.sign(`${base}/${key}`, { aws: { signQuery: true } })
    const size = sizes[index] ?? 0
    for (let from = 0; from < size; from += partBytes) {
      const output = join(folder, `part-${transfers.length}`)
      const range = `${from}-${Math.min(size, from + partBytes) - 1}`
      transfers.push(['--silent', '--fail', '--range', range, '--output', output, url])
    }
  }
  const args = transfers.flatMap((transfer, index) =>
    index > 0 ? ['--next', ...transfer] : transfer,
  )
  await mkdir(folder)
  const startedAt = performance.now()
  await execute('curl', ['--parallel', '--parallel-max', String(parallelParts), ...args])
  const ms = performance.now() - startedAt
  await rm(folder, { recursive: true })
  return ms
}

function medianOf(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}
