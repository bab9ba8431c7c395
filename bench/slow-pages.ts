import { join } from 'node:path'
import { logIn } from '../test/support/page-client.ts'
import { slowDocuments, slowFiles } from '../test/support/slow-inputs.ts'
import { makeProject } from './fixtures.ts'
import { publish } from './git-commands.ts'
import { measureHealthDuring } from './health-latencies.ts'
import { percentile } from './measure.ts'
import { print } from './print.ts'
import { type Row, timeRow } from './rows.ts'
import { startSvc } from './svc.ts'
import type { Workspace } from './workspace.ts'

const name = 'slow'
// Pages are limited by session.
const filesOfSession = 30
const idleMs = 4000

/** Measures the latency of short requests while files are opened that are slow to highlight or to render. */
export async function measureSlowPages(workspace: Workspace): Promise<Row[]> {
  print('Measuring: requests while slow files are opened')
  const { signal } = workspace
  const inputs = [
    // Lines that are longer are shown as text without the thread.
    ...slowFiles.filter(({ name: about }) => /of "(?:a|0x1_| |\\"|a\.)" in lines$/.test(about)),
    ...slowDocuments,
  ]
  const files = inputs.map(({ fileName, text }, index) => ({ path: `${index}-${fileName}`, text }))
  const texts = Object.fromEntries(files.map(({ path, text }) => [path, text]))
  await using svc = await startSvc({ dataDir: join(workspace.folder, 'data-slow') })
  await publish(workspace, svc.host, await makeProject(workspace, name, texts))

  async function openAll(): Promise<void> {
    for (let start = 0; start < files.length; start += filesOfSession) {
      const { token } = await svc.call('POST', '/tokens', { name, permissions: ['admin'] })
      const client = await logIn(svc.url, token)
      for (const { path } of files.slice(start, start + filesOfSession)) {
        const { status } = await client.get(`/r/${name}/src/main:${path}`)
        if (status !== 200) throw new Error(`${path}: ${status}`)
      }
    }
  }

  const { idle, busy } = await measureHealthDuring(svc, { idleMs, signal }, openAll)
  await svc.stop()
  const values = { svc: percentile(busy, 0.99), idle: percentile(idle, 0.99) }
  return [timeRow('pages: GET /health while slow files are opened, p99', { values, rounds: 1 })]
}
