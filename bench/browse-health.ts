import { join } from 'node:path'
import { measureHealthDuring } from './health-latencies.ts'
import { hostileReads, makeHostileHistory } from './hostile-history.ts'
import { percentile } from './measure.ts'
import { print } from './print.ts'
import { type Row, type RowName, timeRow } from './rows.ts'
import { type Svc, startSvc } from './svc.ts'
import type { Workspace } from './workspace.ts'

const name = 'hostile'
const readers = 4
const idleMs = 2000

/** Measures the latency of `/health` while repositories are read that are hard to read, and without load. */
export async function measureHealth(workspace: Workspace): Promise<Row[]> {
  const path = await makeHostileHistory(workspace)
  await using svc = await startSvc({ dataDir: join(workspace.folder, 'data-hostile') })
  await svc.host.copy(name, path)
  print(`Measuring: GET /health during ${hostileReads.length} hostile reads, ${readers} at once`)
  const { idle, busy } = await measureLatencies(workspace, svc)
  await svc.stop()
  const row = (row: RowName, share: number) => {
    const values = { svc: percentile(busy, share), idle: percentile(idle, share) }
    return timeRow(row, { values, rounds: 1 })
  }
  return [
    row('browse: GET /health during hostile reads, p99', 0.99),
    row('browse: GET /health during hostile reads, longest', 1),
  ]
}

function measureLatencies({ signal }: Workspace, svc: Svc) {
  const { url, authorization = '' } = svc.apiTarget(`/repos/${name}`)
  const rest = [...hostileReads]
  async function readAll(): Promise<void> {
    for (let read = rest.shift(); read !== undefined; read = rest.shift()) {
      const response = await fetch(url + read, { headers: { authorization }, signal })
      for await (const _ of response.body ?? []);
      if (response.status >= 500) throw new Error(`${read} failed: ${response.status}`)
    }
  }
  return measureHealthDuring(svc, { idleMs, signal }, () =>
    Promise.all(Array.from({ length: readers }, readAll)),
  )
}
