import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { shellWord } from '#base/shell-word.ts'
import type { Ran } from './command.ts'
import { until } from './condition.ts'
import { temporaryFolder } from './git.ts'
import { launcher, type Service } from './service.ts'

type Options = { input?: string; folder?: string; env?: Record<string, string> }
type OptionsInProcess = Options & { columns?: number }
/** What is typed once a text is shown. */
type Typed = [shown: RegExp, keys: string]

export type ClientHome = Awaited<ReturnType<typeof createClientHome>>

/** A user of the command line: a home directory, and nothing else in the environment. */
export async function createClientHome() {
  const folder = await temporaryFolder()
  const environment = {
    PATH: process.env.PATH,
    HOME: folder.path,
    LANG: 'C.UTF-8',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_AUTHOR_NAME: 'Ada',
    GIT_AUTHOR_EMAIL: 'ada@example.com',
    GIT_COMMITTER_NAME: 'Ada',
    GIT_COMMITTER_EMAIL: 'ada@example.com',
    GIT_TERMINAL_PROMPT: '0',
  }

  /** Starts a command in pipes. */
  function start(args: string[], { folder: cwd = folder.path, env = {} }: Options = {}) {
    const options = { cwd, env: { ...environment, ...env }, stdio: 'pipe' } as const
    const child = spawn(launcher, args, options)
    child.stdin.on('error', () => {})
    return child
  }

  /** Runs a command in this process, as if in pipes, or printing on a terminal of a width; how it ended. */
  async function run(args: string[], options: OptionsInProcess = {}): Promise<Ran> {
    const { runInProcess } = await import('./command-in-process.ts')
    const { folder: cwd = folder.path, env = {}, input = '', columns } = options
    return runInProcess(args, { ...environment, ...env }, { folder: cwd, input, columns })
  }

  /** Runs a command in a process of its own. */
  async function runProgram(args: string[], options: Options = {}) {
    const child = start(args, options)
    child.stdin.end(options.input ?? '')
    const closed = once(child, 'close')
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), closed])
    return { code: code as number | null, out, err }
  }

  return {
    path: folder.path,
    configPath: join(folder.path, '.config/svc/servers.json'),
    start,
    run,
    runProgram,

    /** Runs a command that has to succeed; what it prints. */
    async svc(args: string[], options: Options = {}): Promise<string> {
      const { code, out, err } = await (usesFiles(args) ? runProgram : run)(args, options)
      if (code !== 0) throw new Error(`svc ${args.join(' ')} exited with ${code}: ${err}${out}`)
      return out
    },

    /** Runs a command on a terminal of a width, typing as a person would; what the terminal shows. */
    async onTerminal(
      args: string[],
      typed: Typed[] = [],
      options: Options & { columns?: number } = {},
    ) {
      const { columns = 80, folder: cwd = folder.path, env = {} } = options
      const command = [launcher, ...args].map(shellWord).join(' ')
      const child = spawn('script', ['-qefc', `stty cols ${columns}; ${command}`, '/dev/null'], {
        cwd,
        env: { ...environment, TERM: 'xterm', SHELL: '/bin/sh', ...env },
      })
      let shown = ''
      child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
        shown += chunk
      })
      const exited = once(child, 'close')
      for (const [prompt, keys] of typed) {
        await until(`it shows ${prompt}`, () => prompt.test(shown))
        child.stdin.write(keys)
      }
      const [code] = await exited
      return { code: code as number | null, shown }
    },

    /** Runs git as this user. */
    async git(cwd: string, ...args: string[]): Promise<string> {
      const child = spawn('git', args, { cwd, env: environment })
      const closed = once(child, 'close')
      const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), closed])
      if (code !== 0) throw new Error(`git ${args.join(' ')} exited with ${code}: ${err}`)
      return `${out}${err}`
    },

    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  }
}

/** Whether a command reads or writes files of the current directory, which is that of its process. */
function usesFiles([command, action]: string[]): boolean {
  return command === 'commit' || (command === 'browse' && action === 'archive')
}

/** A user who is logged in to a service with an admin token. */
export async function loggedIn(service: Pick<Service, 'url' | 'adminToken'>): Promise<ClientHome> {
  const home = await createClientHome()
  await home.svc(['login', service.url, '--name', 'main'], { input: `${service.adminToken}\n` })
  return home
}
