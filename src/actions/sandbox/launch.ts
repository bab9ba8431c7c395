import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { killGroup } from '#base/kill-group.ts'

export type LaunchedProcess = ChildProcess

/** How to start a process. It inherits nothing of the runner's environment. */
export type Launch = {
  command: readonly [string, ...string[]]
  env: Record<string, string>
  cwd: string
  stdio: StdioOptions
  /** The user to run as, with the group of the same id and no other groups. */
  user?: number | undefined
}

/** Starts a process in its own session, out of reach of a terminal's keys. The only place in the sandbox that does. */
export function launch({ command, env, cwd, stdio, user }: Launch): LaunchedProcess {
  const [program, ...args] = command
  const identity = user === undefined ? {} : { uid: user, gid: user }
  return spawn(program, args, { env, cwd, stdio, detached: true, ...identity })
}

const maxErrorOutputLength = 2000

/** Runs a system tool: its exit code, and the start of its standard error. */
export function runTool(
  command: readonly [string, ...string[]],
  { user }: { user?: number | undefined } = {},
): Promise<{ exitCode: number; errorOutput: string }> {
  const stdio: StdioOptions = ['ignore', 'ignore', 'pipe']
  const child = launch({ command, env: { LC_ALL: 'C' }, cwd: '/', stdio, user })
  return new Promise((resolve) => {
    let errorOutput = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      errorOutput = (errorOutput + text).slice(0, maxErrorOutputLength)
    })
    child.on('error', (error) => resolve({ exitCode: 126, errorOutput: error.message }))
    child.on('close', (code) => resolve({ exitCode: code ?? 128, errorOutput: errorOutput.trim() }))
  })
}

const maxAnswerLength = 4000
/** The overflow user id of the kernel, user_namespaces(7), which owns nothing. */
const overflowId = 65_534

/**
 * Runs a program of the machine, as an unprivileged user where that is possible, and returns the start of its output;
 * empty when it cannot be started or takes too long.
 */
export function askProgram(
  command: readonly [string, ...string[]],
  { path, timeoutMs }: { path: string; timeoutMs: number },
): Promise<string> {
  const child = launch({
    command,
    env: { PATH: path, LC_ALL: 'C', HOME: '/nonexistent' },
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe'],
    user: process.getuid?.() === 0 ? overflowId : undefined,
  })
  return new Promise((resolve) => {
    let output = ''
    const collect = (text: string) => {
      output = (output + text).slice(0, maxAnswerLength)
    }
    child.stdout?.setEncoding('utf8').on('data', collect)
    child.stderr?.setEncoding('utf8').on('data', collect)
    // The whole group, because launchers of tools may be scripts.
    const timer = setTimeout(() => killGroup(child.pid, 'SIGKILL'), timeoutMs)
    child.on('error', () => {
      clearTimeout(timer)
      resolve('')
    })
    child.on('close', (code) => {
      clearTimeout(timer)
      resolve(code === 0 ? output : '')
    })
  })
}
