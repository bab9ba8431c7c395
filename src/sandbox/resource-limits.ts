import { statfs } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { MemoryGroup } from './memory-group.ts'
import type { RunningProcess } from './running-process.ts'
import type { SandboxLimits } from './sandbox.ts'

export type LimitMet = { reason: 'out-of-memory' | 'out-of-disk'; detail: string }

const betweenMs = 100
// Of the time, a part this small at most goes into looking.
const share = 1 / 20
const filesLeast = 2000

type WatchOptions = {
  limits: SandboxLimits
  memory: MemoryWatch
  disk: string
  signal: AbortSignal
}

/** Looks at a running command from time to time, until it meets a limit or the signal is aborted. */
export async function watch(
  started: RunningProcess,
  { limits, memory, disk, signal }: WatchOptions,
): Promise<LimitMet | undefined> {
  while (!signal.aborted) {
    const before = performance.now()
    const met = (await diskMet(disk, limits)) ?? (await memory.check(started))
    if (met) return met
    const tookMs = performance.now() - before
    await sleep(Math.max(betweenMs, tookMs / share), undefined, { signal }).catch(() => {})
  }
  return undefined
}

/** Whether the disk of the rooms is nearly full. */
export async function diskMet(
  disk: string,
  { freeSpaceMinBytes }: SandboxLimits,
): Promise<LimitMet | undefined> {
  const { bavail, bsize, files, ffree } = await statfs(disk)
  if (bavail * bsize < freeSpaceMinBytes) {
    const detail = `The runner's disk is nearly full: ${megabytes(bavail * bsize)} are free, and ${megabytes(freeSpaceMinBytes)} are to stay so.`
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

export type MemoryWatch = {
  /** Whether the kernel has ended a process of the command because of the limit, as far as it says so. */
  limitMet: () => LimitMet | undefined
  /** The same, or what is counted where the kernel does not say so. */
  check: (started: RunningProcess) => Promise<LimitMet | undefined>
}

/** Watches the memory of one command, from its start. */
export function watchMemory(
  { memoryMaxBytes }: SandboxLimits,
  group: MemoryGroup | undefined,
): MemoryWatch {
  const before = killsOf(group)
  const met: LimitMet = {
    reason: 'out-of-memory',
    detail: `The step took more than the ${megabytes(memoryMaxBytes)} of memory that it may.`,
  }
  const limitMet = () => ((killsOf(group) ?? 0) > (before ?? 0) ? met : undefined)
  return {
    limitMet,
    async check(started) {
      if (killsOf(group) !== undefined) return limitMet()
      return (await started.memory(memoryMaxBytes)) > memoryMaxBytes ? met : undefined
    },
  }
}

/** Undefined where there is no group, or where it was taken away. */
function killsOf(group: MemoryGroup | undefined): number | undefined {
  try {
    return group?.countKills()
  } catch {
    return undefined
  }
}

function megabytes(bytes: number): string {
  return `${Math.floor(bytes / 1_048_576)} MiB`
}
