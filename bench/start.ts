import { get } from 'node:http'
import { join } from 'node:path'
import { compare } from './measure.ts'
import { type Row, timeRow } from './rows.ts'
import { type SvcOptions, startSvc } from './svc.ts'
import type { Workspace } from './workspace.ts'

const maxSeconds = 30

/** Measures the time from the start of svc to its first response. */
export async function measureStart(
  { folder, signal }: Workspace,
  { starts }: { starts: number },
): Promise<Row[]> {
  const effort = { rounds: starts, seconds: maxSeconds }
  const startOn = async (dataDir: string) => {
    signal.throwIfAborted()
    return (await timeToResponse({ dataDir })).elapsedMs
  }
  return [
    timeRow(
      'start: new data directory',
      await compare(
        'start on a new data directory',
        { svc: (round) => startOn(join(folder, `data-start-${round}`)) },
        effort,
      ),
    ),
    timeRow(
      'start: used data directory',
      await compare(
        'start on a used data directory',
        { svc: () => startOn(join(folder, 'data-start-0')) },
        effort,
      ),
    ),
  ]
}

/** Starts and stops svc, and returns the time to its first response and its CPU time until then, in ms. */
export async function timeToResponse(options: SvcOptions) {
  const startedAt = performance.now()
  await using svc = await startSvc(options)
  await assertHealthy(svc.url)
  const timing = { elapsedMs: performance.now() - startedAt, cpuMs: svc.cpuMs() }
  await svc.stop()
  return timing
}

function assertHealthy(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    get(`${url}/health`, { agent: false }, (response) => {
      response.resume()
      if (response.statusCode === 200) response.on('end', resolve)
      else reject(new Error(`GET /health failed with ${response.statusCode}.`))
    }).on('error', reject)
  })
}
