import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { launcher } from './service.ts'

const programsOfTheirOwn = new Set(['serve', 'mcp', 'runner', 'run'])

/** How a command of the real program ended, and what it said. */
export type Ran = { code: number | null; signal: NodeJS.Signals | null; out: string; err: string }

/** Starts a command of the real program, without settings but those given, and with nothing to read but `input`. */
export function startSvc(
  args: string[],
  env: Record<string, string> = {},
  input: string | Buffer = '',
) {
  const child = spawn(launcher, args, { env: { PATH: process.env.PATH, ...env }, stdio: 'pipe' })
  // A command that reads nothing may have ended before.
  child.stdin.on('error', () => {}).end(input)
  const exited = once(child, 'close')
  const ended = Promise.all([text(child.stdout), text(child.stderr), exited]).then(
    ([out, err, [code, signal]]): Ran => ({ code, signal, out, err }),
  )
  return { child, ended }
}

/**
 * Runs a command to its end, however that is: in this process if it can be, because the start of a program costs more
 * than most commands do.
 */
export async function runSvc(
  args: string[],
  env: Record<string, string> = {},
  input?: string | Buffer,
): Promise<Ran> {
  if (needsProgram(args, env)) return startSvc(args, env, input).ended
  // Loaded lazily: it takes as long as three commands in processes of their own.
  const { runInProcess } = await import('./command-in-process.ts')
  return runInProcess(args, env, { input })
}

function needsProgram([command = '']: string[], env: Record<string, string>): boolean {
  return (
    programsOfTheirOwn.has(command) ||
    env.SVC_FAULT_POINT !== undefined ||
    process.env.SVC_TEST_LAUNCHER !== undefined
  )
}
