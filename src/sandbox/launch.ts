import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'

export type Launched = ChildProcess

/** All that a process starts with. Nothing of the runner's own environment is handed on. */
export type Launch = {
  command: readonly [string, ...string[]]
  env: Record<string, string>
  cwd: string
  stdio: StdioOptions
  /** Becomes this user, with the group of the same number and no others, before the program is loaded. */
  user?: number | undefined
}

/** Starts a process in a session of its own, so that no key of a terminal reaches it: the one place of the sandbox that does. */
export function launch({ command, env, cwd, stdio, user }: Launch): Launched {
  const [program, ...args] = command
  const identity = user === undefined ? {} : { uid: user, gid: user }
  return spawn(program, args, { env, cwd, stdio, detached: true, ...identity })
}

const complaintMaxLength = 2000

/** Runs one of the system's own tools to its end: its exit code and the start of what it complained about. */
export function runTool(
  command: readonly [string, ...string[]],
  { user }: { user?: number | undefined } = {},
): Promise<{ exitCode: number; complaint: string }> {
  const stdio: StdioOptions = ['ignore', 'ignore', 'pipe']
  const child = launch({ command, env: { LC_ALL: 'C' }, cwd: '/', stdio, user })
  return new Promise((resolve) => {
    let complaint = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      complaint = (complaint + text).slice(0, complaintMaxLength)
    })
    child.on('error', (error) => resolve({ exitCode: 126, complaint: error.message }))
    child.on('close', (code) => resolve({ exitCode: code ?? 128, complaint: complaint.trim() }))
  })
}
