import { constants } from 'node:os'
import { Problem } from '#base/problem.ts'
import { settings } from '#config/settings-table.ts'
import type { ExitStatus, Limits } from './preforked-process.ts'

/** Limits of every git process. */
export type GitLimits = Pick<Limits, 'memoryMaxBytes' | 'cpuMaxSeconds'>

const mib = 1024 * 1024
// The message of git's run-command.c about a child process.
const timeLimitError = new RegExp(`died of signal ${constants.signals.SIGXCPU}\\b`)
const errorLine = /^(fatal|error): /i
const outOfMemory = /out of memory|cannot allocate memory/i

/**
 * Returns the limit that ended a git process, or a child of it, as a Problem; undefined when none did. The detail names
 * the setting when the limit comes from it.
 */
export function limitExceeded(
  { exitCode, signal, errorOutput }: Partial<ExitStatus> & { errorOutput: string },
  limits: GitLimits,
  commonLimits?: GitLimits,
): Problem | undefined {
  if (exitCode === 0) return undefined
  const { memoryMaxBytes, cpuMaxSeconds } = limits
  const { gitCpuMaxSeconds, gitMemoryMaxBytes } = settings
  if (signal === 'SIGXCPU' || timeLimitError.test(errorOutput)) {
    const isCommon = cpuMaxSeconds === commonLimits?.cpuMaxSeconds
    return problemOf(`${cpuMaxSeconds} s of processor time`, isCommon && gitCpuMaxSeconds)
  }
  const isError = (line: string) => errorLine.test(line) && outOfMemory.test(line)
  if (!errorOutput.split('\n').some(isError)) return undefined
  const isCommon = memoryMaxBytes === commonLimits?.memoryMaxBytes
  return problemOf(
    `${Math.floor(memoryMaxBytes / mib)} MiB of memory`,
    isCommon && gitMemoryMaxBytes,
  )
}

function problemOf(limit: string, setting: { variable: string } | false): Problem {
  const named = setting ? ` (${setting.variable})` : ''
  return new Problem('git_limit_exceeded', `Git exceeded the server's limit of ${limit}${named}.`)
}
