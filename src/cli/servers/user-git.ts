import { type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { CommandError } from '../terminal/command-errors.ts'

/** Set for git processes of the client, so that `svc git-credential` does not ask itself. */
export const recursionGuard = 'SVC_GIT_CREDENTIAL'

// Set when git itself has started svc, as its credential helper or from a hook.
const noRepository = {
  GIT_DIR: undefined,
  GIT_WORK_TREE: undefined,
  GIT_COMMON_DIR: undefined,
  GIT_CONFIG_PARAMETERS: undefined,
}

type GitResult = { code: number | null; out: string }

/** The git of the user, with the user's configuration. Tokens go to it on standard input only. */
export type UserGit = {
  /** Runs git silently; outside, where only the configuration of the user and of the system counts. */
  run: (args: string[], options?: { input?: string; isOutside?: boolean }) => Promise<GitResult>
  /** Runs git with the output and prompts of the user's terminal; its exit code. */
  show: (args: string[]) => Promise<number>
}

export function createUserGit(environment: NodeJS.ProcessEnv, folder: string): UserGit {
  const start = (args: string[], options: SpawnOptions) => {
    const child = spawn('git', args, options)
    const failed = once(child, 'error').then(([error]) => {
      throw new CommandError('failure', 'git cannot be started; install it.', { cause: error })
    })
    const closed = once(child, 'close').then(([code]): number | null => code)
    return { child, ended: Promise.race([failed, closed]) }
  }
  return {
    async run(args, { input = '', isOutside = false } = {}) {
      const env = {
        ...environment,
        [recursionGuard]: '1',
        // A credential helper must not prompt.
        ...{ GIT_TERMINAL_PROMPT: '0', GIT_ASKPASS: 'true', SSH_ASKPASS: 'true' },
        ...(isOutside && noRepository),
      }
      const { child, ended } = start(args, {
        cwd: isOutside ? '/' : folder,
        env,
        stdio: ['pipe', 'pipe', 'ignore'],
      })
      child.stdin?.on('error', () => {}).end(input)
      const [out, code] = await Promise.all([child.stdout ? text(child.stdout) : '', ended])
      return { out, code }
    },
    async show(args) {
      // SVC_TOKEN stays in the environment, for the credential helper.
      const { ended } = start(args, { cwd: folder, env: environment, stdio: 'inherit' })
      return (await ended) ?? 1
    },
  }
}
