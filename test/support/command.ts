import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { launcher } from './service.ts'

/** How a command of the real program ended, and what it said. */
export type Ran = { code: number | null; signal: NodeJS.Signals | null; out: string; err: string }

/** Starts a command of the real program, without settings but those given. */
export function startSvc(args: string[], env: Record<string, string> = {}) {
  const child = spawn(launcher, args, {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'close')
  const ended = Promise.all([text(child.stdout), text(child.stderr), exited]).then(
    ([out, err, [code, signal]]): Ran => ({ code, signal, out, err }),
  )
  return { child, ended }
}

/** Runs a command of the real program to its end, however that is. */
export function runSvc(args: string[], env?: Record<string, string>): Promise<Ran> {
  return startSvc(args, env).ended
}
