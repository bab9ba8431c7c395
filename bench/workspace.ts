import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Finished, run } from './processes.ts'

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
    /** The environment of programs: nothing in it depends on the configuration of this machine. */
    env,
    /** Aborted when the run is interrupted, or takes too long. */
    signal,

    /** Runs git in the folder. Rejects when it fails. */
    git(args: string[], { config = {}, input = [] }: GitOptions = {}): Promise<Finished> {
      const settings = Object.entries({ ...clientConfig, ...config })
      const options = settings.flatMap(([key, value]) => ['-c', `${key}=${value}`])
      return run('git', [...options, ...args], { env, cwd: folder, input, signal })
    },

    /** Waits until all written data is on the disk. */
    async sync(): Promise<void> {
      await run('sync', [], { env, signal })
    },

    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }),
  }
}

/** The same workspace with its own ssh command for git. */
export function withSsh(workspace: Workspace, sshCommand: string): Workspace {
  return {
    ...workspace,
    git: (args, { config, ...options } = {}) =>
      workspace.git(args, { ...options, config: { 'core.sshCommand': sshCommand, ...config } }),
  }
}
