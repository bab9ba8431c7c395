import { setTimeout as pause } from 'node:timers/promises'
import { startWatcher } from './load-watcher.ts'
import type { Svc } from './svc.ts'

type Options = {
  /** How long it is measured without work. */
  idleMs: number
  signal: AbortSignal
}

/** Measures the latencies of `/health` in ms: without work, and until work is done. */
export async function measureHealthDuring(
  svc: Svc,
  { idleMs, signal }: Options,
  work: () => Promise<unknown>,
): Promise<{ idle: number[]; busy: number[] }> {
  await using watcher = startWatcher(`${svc.url}/health`, svc.adminToken, signal)
  const idle = await watcher.during([pause(idleMs, undefined, { signal })])
  return { idle, busy: await watcher.during([work()]) }
}
