import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { until } from './condition.ts'
import { createProject, type Project, spawnGitGroup } from './git.ts'
import type { Client, Service } from './service.ts'
import type { SshUser } from './ssh-user.ts'
import type { Files } from './workflow-site.ts'

export type Transport = 'http' | 'ssh'

/** A workflow that the pushes of branches start, with one step. */
export const onPush = (run: string, more = '') =>
  `name: CI\non: push\n${more}jobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - name: Check\n        run: |\n${run.replace(/^/gm, '          ')}\n`

/** Commits files; the id of the commit. */
export async function commitFiles(project: Project, files: Files, message = 'Files') {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(project.path, path)), { recursive: true })
    await writeFile(join(project.path, path), text)
  }
  await project.git('add', '--all')
  await project.git('commit', '--quiet', '--allow-empty', '-m', message)
  return project.git('rev-parse', 'HEAD')
}

/** A clone of a new repository, whose pushes can wait. */
export async function startPushSite(service: Service, client: Client, name: string) {
  await using stack = new AsyncDisposableStack()
  const project = stack.use(await createProject())
  await client.post('/repos', { name })
  await project.git('push', '--quiet', client.remote(name), 'HEAD:main')
  const owned = stack.move()

  /** Starts a push, to signal it or to wait for its end. */
  function push(options: string[], refs: string[], user?: SshUser) {
    const remote = user ? user.remote(name) : client.remote(name)
    const args = ['push', ...options.flatMap((option) => ['-o', option]), remote, ...refs]
    const child = spawnGitGroup(project.path, args, user ? { GIT_SSH_COMMAND: user.command } : {})
    let text = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
    const ended = once(child, 'close').then(([code]) => ({ code, text }))
    return {
      ended,
      /** Signals all its processes; SIGINT is what Ctrl-C does in a terminal. */
      signal: (signal: NodeJS.Signals) => process.kill(-(child.pid ?? 0), signal),
      text: () => text,
      /** Waits until something is on the terminal. */
      shows: (words: string) =>
        until(`${words} in ${text}`, () => {
          if (child.exitCode !== null) throw new Error(`git has ended: ${text}`)
          return text.includes(words)
        }),
    }
  }

  return {
    name,
    service,
    client,
    project,
    push,
    /** The value of a branch; undefined when there is none. */
    async branch(branch: string): Promise<string | undefined> {
      const listed = await project.git('ls-remote', client.remote(name), `refs/heads/${branch}`)
      return listed === '' ? undefined : listed.split('\t')[0]
    },
    /** The runs, oldest first. */
    async runs() {
      return (await client.get(`/repos/${name}/workflows`)).body.reverse()
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
