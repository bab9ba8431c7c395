import { constants } from 'node:os'
import { Problem } from '../../base/problem.ts'
import { gitLimitSettings } from '../../config/git-limit-settings.ts'
import type { ExitStatus, Limits } from './preforked-process.ts'

/** The limits that every git process has. */
export type GitLimits = Pick<Limits, 'memoryMaxBytes' | 'cpuMaxSeconds'>

const mib = 1024 * 1024
// Git's run-command.c, of a process that it has started.
const timeComplaint = new RegExp(`died of signal ${constants.signals.SIGXCPU}\\b`)
const memoryComplaint = /^(fatal|error): .*(out of memory|cannot allocate memory)/im

/**
 * Says which of its limits ended a git process, or one that it has started; undefined when none did. A setting is named
 * where the limit is what it says.
 */
export function limitExceeded(
  { exitCode, signal, complaint }: Partial<ExitStatus> & { complaint: string },
  limits: GitLimits,
  commonLimits?: GitLimits,
): Problem | undefined {
  if (exitCode === 0) return undefined
  const { memoryMaxBytes, cpuMaxSeconds } = limits
  const { gitCpuMaxSeconds, gitMemoryMaxBytes } = gitLimitSettings
  if (signal === 'SIGXCPU' || timeComplaint.test(complaint)) {
    const isCommon = cpuMaxSeconds === commonLimits?.cpuMaxSeconds
    return problemOf(`${cpuMaxSeconds} s of processor time`, isCommon && gitCpuMaxSeconds)
  }
  if (!memoryComplaint.test(complaint)) return undefined
  const isCommon = memoryMaxBytes === commonLimits?.memoryMaxBytes
  const mostMemory = `${Math.floor(memoryMaxBytes / mib)} MiB of memory`
  return problemOf(mostMemory, isCommon && gitMemoryMaxBytes)
}

function problemOf(limit: string, setting: { variable: string } | false): Problem {
  const named = setting ? ` (${setting.variable})` : ''
  return new Problem(
    'git_limit_exceeded',
    `Git needed more than the ${limit} that this server allows it${named}.`,
  )
}
