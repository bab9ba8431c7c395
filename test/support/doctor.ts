import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, cp, symlink, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { runInProcess } from './command-in-process.ts'
import { createProject, git, temporaryFolder } from './git.ts'
import { launcher, startServiceWithSsh } from './service.ts'

export type Result = {
  check: string
  title: string
  level: 'ok' | 'warning' | 'fault' | 'skipped'
  found: string
  fix: string | null
}

type Options = {
  dataDir: string
  args?: string[]
  env?: Record<string, string>
  /** The launcher to start, by default the one of this checkout. */
  program?: string
  /** Words to put before the command line: a program that starts another. */
  by?: string[]
}

/** What `svc doctor` prints, and how it ends; it runs in this process, unless a program is given. */
export function askDoctor(options: Options) {
  const isOwnProgram = options.program !== undefined || options.by !== undefined
  return isOwnProgram ? askProgram(options) : askInProcess(options)
}

async function askProgram({ dataDir, args = [], env = {}, program = launcher, by = [] }: Options) {
  const [file = program, ...words] = [...by, program, 'doctor', ...args]
  const child = spawn(file, words, {
    env: environmentOf(dataDir, env),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [output, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = await once(child, 'close')
  return { code: Number(code), output, stderr }
}

function environmentOf(dataDir: string, env: Record<string, string>): NodeJS.ProcessEnv {
  return {
    PATH: process.env.PATH,
    SVC_PORT: '0',
    SVC_SSH_PORT: '0',
    SVC_FREE_SPACE_MIN: '0',
    SVC_DATA_DIR: dataDir,
    ...env,
  }
}

/** What `svc doctor --json` found; see `askDoctor`. */
export async function examine(options: Options) {
  const args = ['--json', ...(options.args ?? [])]
  const { code, output, stderr } = await askDoctor({ ...options, args })
  const results: Result[] = JSON.parse(output)
  return {
    code,
    stderr,
    results,
    /** The results of one check. */
    of: (check: string) => results.filter((result) => result.check === check),
    faults: results.filter(({ level }) => level === 'fault'),
  }
}

async function askInProcess({ dataDir, args = [], env = {} }: Options) {
  const ran = await runInProcess(['doctor', ...args], environmentOf(dataDir, env))
  return { code: Number(ran.code), output: ran.out, stderr: ran.err }
}

export type Patient = Awaited<ReturnType<typeof createPatient>>

/** The data directory of a service that was stopped, with a repository `site` that has a secret, to be copied and harmed. */
export async function createPatient(env: Record<string, string> = {}) {
  const folder = await temporaryFolder()
  const dataDir = join(folder.path, 'original')
  await using project = await createProject()
  await using service = await startServiceWithSsh({ dataDir, env })
  const { body } = await service.admin.post('/repos', { name: 'site' })
  await service.admin.put('/repos/site/secrets/TOKEN', { value: 'hush' })
  await git(project.path, ['push', '--quiet', service.admin.remote('site'), 'main'])
  await service.end('SIGTERM')
  let copies = 0
  return {
    id: String(body.id),

    /** A copy to do with as one likes; the paths in it. */
    async copy() {
      const path = join(folder.path, `copy-${copies++}`)
      await cp(dataDir, path, { recursive: true, preserveTimestamps: true })
      const repository = join(path, 'repositories', body.id.slice(-2), `${body.id}.git`)
      return { dataDir: path, database: join(path, 'svc.db'), repository }
    },

    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  }
}

/** A folder of programs, each a script for sh, and the PATH on which they come first. */
export async function createPrograms(scripts: Record<string, string>) {
  const folder = await temporaryFolder()
  // bubblewrap is started as another user.
  await chmod(folder.path, 0o755)
  for (const [name, script] of Object.entries(scripts)) {
    await writeFile(join(folder.path, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  }
  return {
    path: folder.path,
    first: `${folder.path}:${process.env.PATH}`,
    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  }
}

const needed = [
  ...['sh', 'readlink', 'dirname', 'nice', 'git', 'ssh', 'bwrap'],
  ...['rm', 'chmod', 'prlimit', 'setpriv', 'setsid', 'choom', 'unshare', 'nsenter', 'mount'],
]

/** A PATH on which there is all that svc needs and uses, but for some programs. */
export async function createPathWithout(...names: string[]) {
  const folder = await temporaryFolder()
  for (const name of needed) {
    const found = onPath(name)
    if (found !== undefined && !names.includes(name)) await symlink(found, join(folder.path, name))
  }
  return folder
}

function onPath(name: string): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter)
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path))
}
