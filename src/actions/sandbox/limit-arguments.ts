import { readFileSync } from 'node:fs'
import type { SandboxLimits } from './sandbox.ts'

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
