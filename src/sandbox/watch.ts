import { statfs } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SandboxLimits } from './sandbox.ts'
import type { Started } from './started.ts'

export type LimitMet = { reason: 'out-of-memory' | 'out-of-disk'; detail: string }

const betweenMs = 100
// Of the time, a part this small at most goes into looking.
const share = 1 / 20
const filesLeast = 2000

/** Looks at a running command from time to time, until it meets a limit or the signal is aborted. */
export async function watch(
  started: Started,
  { limits, disk, signal }: { limits: SandboxLimits; disk: string; signal: AbortSignal },
): Promise<LimitMet | undefined> {
  while (!signal.aborted) {
    const before = performance.now()
    const met = (await diskMet(disk, limits)) ?? (await memoryMet(started, limits))
    if (met) return met
    const tookMs = performance.now() - before
    await sleep(Math.max(betweenMs, tookMs / share), undefined, { signal }).catch(() => {})
  }
  return undefined
}

/** Whether the disk of the rooms is nearly full. */
export async function diskMet(
  disk: string,
  { freeSpaceLeast }: SandboxLimits,
): Promise<LimitMet | undefined> {
  const { bavail, bsize, files, ffree } = await statfs(disk)
  if (bavail * bsize < freeSpaceLeast) {
    const detail = `The runner's disk is nearly full: ${megabytes(bavail * bsize)} are free, and ${megabytes(freeSpaceLeast)} are to stay so.`
    return { reason: 'out-of-disk', detail }
  }
  // Some file systems do not count their files, and say that there are none.
  if (files > 0 && ffree < filesLeast) {
    return {
      reason: 'out-of-disk',
      detail: `The runner's disk has room for only ${ffree} more files.`,
    }
  }
  return undefined
}

async function memoryMet(
  started: Started,
  { memoryMaxBytes }: SandboxLimits,
): Promise<LimitMet | undefined> {
  if ((await started.memory(memoryMaxBytes)) <= memoryMaxBytes) return undefined
  const detail = `The step took more than the ${megabytes(memoryMaxBytes)} of memory that it may.`
  return { reason: 'out-of-memory', detail }
}

function megabytes(bytes: number): string {
  return `${Math.floor(bytes / 1_048_576)} MiB`
}
