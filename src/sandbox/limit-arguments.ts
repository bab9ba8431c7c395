import { readFileSync } from 'node:fs'
import type { SandboxLimits } from './sandbox.ts'

const openFilesMax = 4096

/**
 * The limits of each process as arguments of prlimit(1). A limit that is lower already stays, since only root
 * may raise it. `others` is how many processes of the same user count but are none of the room's.
 */
export function limitArguments(
  limits: SandboxLimits,
  { others = 0, ours = readFileSync('/proc/self/limits', 'utf8') } = {},
): string[] {
  const wanted = {
    nproc: ['Max processes', limits.processesMax + others],
    fsize: ['Max file size', limits.fileMaxBytes],
    data: ['Max data size', limits.memoryMaxBytes],
    nofile: ['Max open files', openFilesMax],
    core: ['Max core file size', 0],
  } as const
  return Object.entries(wanted).map(
    ([name, [title, value]]) => `--${name}=${Math.min(value, hardLimit(ours, title))}`,
  )
}

// proc(5), /proc/pid/limits: `Max open files            1024                 524288               files`
function hardLimit(table: string, title: string): number {
  const line = table.split('\n').find((one) => one.startsWith(`${title} `)) ?? ''
  const [, hard = ''] = line.slice(title.length).trim().split(/ +/)
  return /^\d+$/.test(hard) ? Number(hard) : Number.POSITIVE_INFINITY
}
