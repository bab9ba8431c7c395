import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Finished, run } from './program.ts'

export type Workspace = Awaited<ReturnType<typeof createWorkspace>>

type GitOptions = { config?: Record<string, string>; input?: Iterable<Buffer | string> }

// Automatic maintenance in the client's repository would be measured together with the server.
const clientConfig = { 'gc.auto': '0', 'maintenance.auto': 'false' }

/** A temporary folder, removed when disposed, with git: the client of all measurements. */
export async function createWorkspace(signal: AbortSignal) {
  const folder = await mkdtemp(join(tmpdir(), 'svc-bench-'))
  const home = join(folder, 'home')
  await mkdir(home)
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    LANG: 'C.UTF-8',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
  }

  return {
    folder,
    /** What programs get of the environment: nothing that this machine's configuration could change. */
    env,
    /** Aborted when the person at the terminal wants no more. */
    signal,

    /** Runs git in the folder. Rejects when it fails. */
    git(args: string[], { config = {}, input = [] }: GitOptions = {}): Promise<Finished> {
      const settings = Object.entries({ ...clientConfig, ...config })
      const options = settings.flatMap(([key, value]) => ['-c', `${key}=${value}`])
      return run('git', [...options, ...args], { env, cwd: folder, input, signal })
    },

    /** Waits until the disk has all that was written. */
    async sync(): Promise<void> {
      await run('sync', [], { env, signal })
    },

    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }),
  }
}

/** The same workspace with a git that starts ssh by a command of its own. */
export function withSsh(workspace: Workspace, sshCommand: string): Workspace {
  return {
    ...workspace,
    git: (args, { config, ...options } = {}) =>
      workspace.git(args, { ...options, config: { 'core.sshCommand': sshCommand, ...config } }),
  }
}
