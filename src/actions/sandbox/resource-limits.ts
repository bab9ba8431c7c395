import { readFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { minFreeFiles } from '#config/free-space.ts'
import type { MemoryGroup } from './memory/memory-group.ts'
import type { RunningProcess } from './running-process.ts'
import type { SandboxLimits } from './sandbox.ts'

type LimitReached = { reason: 'out-of-memory' | 'out-of-disk'; detail: string }

const minIntervalMs = 100
// Checks take at most this part of the time.
const maxTimeShare = 1 / 20

type WatchOptions = {
  limits: SandboxLimits
  memory: MemoryWatch
  disk: string
  signal: AbortSignal
}

/** Checks a running command periodically, until it reaches a limit or the signal is aborted. */
export async function watchLimits(
  started: RunningProcess,
  { limits, memory, disk, signal }: WatchOptions,
): Promise<LimitReached | undefined> {
  while (!signal.aborted) {
    const before = performance.now()
    const reached = (await checkDisk(disk, limits)) ?? (await memory.check(started))
    if (reached) return reached
    const tookMs = performance.now() - before
    await sleep(Math.max(minIntervalMs, tookMs / maxTimeShare), undefined, { signal }).catch(
      () => {},
    )
  }
  return undefined
}

export async function checkDisk(
  disk: string,
  { freeSpaceMinBytes }: SandboxLimits,
): Promise<LimitReached | undefined> {
  const { bavail, bsize, files, ffree } = await statfs(disk)
  if (bavail * bsize < freeSpaceMinBytes) {
    const detail = `The runner's disk is nearly full: ${megabytes(bavail * bsize)} are free, and ${megabytes(freeSpaceMinBytes)} must stay free.`
    return { reason: 'out-of-disk', detail }
  }
  // Some file systems do not count files and report 0.
  // Twice the minimum of a server, which may have the same disk: steps are stopped before it rejects pushes.
  if (files > 0 && ffree < 2 * minFreeFiles) {
    return {
      reason: 'out-of-disk',
      detail: `The runner's disk has space for only ${ffree} more files.`,
    }
  }
  return undefined
}

type MemoryWatch = {
  /** Whether the kernel has killed a process of the command for the limit. */
  limitReached: () => LimitReached | undefined
  /** The same; measures the memory where the kernel does not limit it. */
  check: (started: RunningProcess) => Promise<LimitReached | undefined>
}

/** Watches the memory of one command, from its start. */
export function watchMemory(
  { memoryMaxBytes }: SandboxLimits,
  group: MemoryGroup | undefined,
): MemoryWatch {
  const before = killsOf(group)
  const reached: LimitReached = {
    reason: 'out-of-memory',
    detail: `The step exceeded its memory limit of ${megabytes(memoryMaxBytes)}.`,
  }
  const limitReached = () => ((killsOf(group) ?? 0) > (before ?? 0) ? reached : undefined)
  return {
    limitReached,
    async check(started) {
      if (killsOf(group) !== undefined) return limitReached()
      return (await started.memory(memoryMaxBytes)) > memoryMaxBytes ? reached : undefined
    },
  }
}

/** Undefined without a group, or when it has been removed. */
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

const maxOpenFiles = 4096

/**
 * Arguments of prlimit(1). Lower limits of this process stay, because only root can raise them. `otherTasks` are
 * the processes and threads of the same user outside the workspace.
 */
export function limitArguments(
  limits: SandboxLimits,
  { otherTasks = 0, ownLimits = readFileSync('/proc/self/limits', 'utf8') } = {},
): string[] {
  const wanted = {
    nproc: ['Max processes', limits.processesMax + otherTasks],
    fsize: ['Max file size', limits.fileMaxBytes],
    data: ['Max data size', limits.memoryMaxBytes],
    nofile: ['Max open files', maxOpenFiles],
    core: ['Max core file size', 0],
  } as const
  return Object.entries(wanted).map(
    ([name, [title, value]]) => `--${name}=${Math.min(value, hardLimit(ownLimits, title))}`,
  )
}

// proc(5), /proc/pid/limits: `Max open files            1024                 524288               files`
function hardLimit(table: string, title: string): number {
  const line = table.split('\n').find((one) => one.startsWith(`${title} `)) ?? ''
  const [, hard = ''] = line.slice(title.length).trim().split(/ +/)
  return /^\d+$/.test(hard) ? Number(hard) : Number.POSITIVE_INFINITY
}
