import { spawn } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createForkingShell } from './forking-shell.ts'
import { objectFormat } from './object-format.ts'

const environment = {
  PATH: process.env.PATH,
  HOME: '/nonexistent',
  LANG: 'C.UTF-8',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_TERMINAL_PROMPT: '0',
  GIT_CONFIG_COUNT: '2',
  // Git would start a process after each commit and fetch, to find out that there is nothing to do.
  GIT_CONFIG_KEY_0: 'maintenance.auto',
  GIT_CONFIG_VALUE_0: 'false',
  // Git 3.0 has other defaults.
  GIT_CONFIG_KEY_1: 'safe.bareRepository',
  GIT_CONFIG_VALUE_1: 'all',
  GIT_DEFAULT_HASH: objectFormat,
  GIT_DEFAULT_REF_FORMAT: 'files',
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.com',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.com',
}

const shell = createForkingShell(environment)

export type Project = Awaited<ReturnType<typeof createProject>>

/** Runs the real git; what it printed. Rejects with what it complained about when it fails. */
export async function git(cwd: string, args: string[], env: Record<string, string> = {}) {
  const { exitCode, stdout, stderr } = await shell.run({ cwd, args: ['git', ...args], env })
  if (exitCode === 0) return { stdout: stdout.trim(), stderr }
  const message = `Command failed: git ${args.join(' ')}\n${stderr}`
  throw Object.assign(new Error(message), { code: exitCode, stdout, stderr })
}

/** Starts the real git with pipes to talk to it. */
export function spawnGit(cwd: string, args: string[]) {
  return spawn('git', args, { cwd, env: environment })
}

/** The same, in a process group of its own: a terminal sends the signal of Ctrl-C to all of it. */
export function spawnGitGroup(cwd: string, args: string[], env: Record<string, string> = {}) {
  return spawn('git', args, { cwd, env: { ...environment, ...env }, detached: true })
}

/** A folder that goes away with its test. */
export async function temporaryFolder() {
  const path = await mkdtemp(join(tmpdir(), 'svc-test-'))
  return {
    path,
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 5 }),
  }
}

/** The id of the commit that was just made. */
async function readHead(project: string): Promise<string> {
  const read = async (path: string) => (await readFile(join(project, '.git', path), 'utf8')).trim()
  const head = await read('HEAD')
  return head.startsWith('ref: ') ? read(head.slice('ref: '.length)) : head
}

let emptyProject: Promise<string> | undefined

/** A Git project of a user, in a folder of its own, with one commit on `main`. */
export async function createProject() {
  const folder = await temporaryFolder()
  emptyProject ??= createEmptyProject()
  // A copy costs less than the four processes of git that make a project.
  cpSync(await emptyProject, folder.path, { recursive: true })
  const { [Symbol.asyncDispose]: dispose } = folder
  return Object.assign(projectAt(folder.path), { [Symbol.asyncDispose]: dispose })
}

/** The project in a folder. */
export function projectAt(path: string) {
  const run = async (...args: string[]) => (await git(path, args)).stdout
  return {
    path,
    /** Runs git in the project; its output. */
    git: run,
    /** Commits a file; the commit's id. */
    async commit(name: string, content: string | Buffer = name): Promise<string> {
      await writeFile(join(path, name), content)
      await run('add', '--', name)
      await run('commit', '--quiet', '-m', `Add ${name}`)
      return readHead(path)
    },
  }
}

/** Creates what each project starts as, in a folder that goes away with the process. */
async function createEmptyProject(): Promise<string> {
  const { path } = await temporaryFolder()
  process.once('exit', () => rmSync(path, { recursive: true, force: true }))
  const project = projectAt(path)
  await project.git('init', '--quiet', '--initial-branch=main')
  await project.commit('readme.txt')
  const hooks = join(path, '.git/hooks')
  for (const sample of await readdir(hooks)) await rm(join(hooks, sample))
  return path
}
