import { join } from 'node:path'
import { mustRunInProcess, refsOf } from './backups.ts'
import { createProject, temporaryFolder } from './git.ts'
import { startService } from './service.ts'

/** A service with some of everything that a backup holds, and a folder for backups; the server runs. */
export async function createBackupSite(env: Record<string, string> = {}) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  const dataDir = join(folder.path, 'data')
  const service = stack.use(await startService({ dataDir, env }))
  const project = stack.use(await createProject())
  for (const name of ['site', 'page', 'empty']) await service.admin.post('/repos', { name })
  await service.admin.put('/repos/site/protections/branches/main')
  await service.admin.post('/repos/site/collaborators', { username: 'grace' })
  await project.git('tag', '-a', '-m', 'One', 'v1')
  await project.git('push', '--quiet', service.admin.remote('site'), 'main', 'v1', 'main:topic/a')
  await project.git('push', '--quiet', service.admin.remote('page'), 'main')
  const held = stack.move()
  const here = { SVC_DATA_DIR: dataDir, ...env }
  let restores = 0

  /** Restores the backup; the new data directory. */
  async function restore(): Promise<string> {
    const to = join(folder.path, `restored-${restores++}`)
    await mustRunInProcess(['restore', join(folder.path, 'backup')], { SVC_DATA_DIR: to })
    return to
  }

  return {
    service,
    project,
    folder: folder.path,
    /** Where backups go. */
    backup: join(folder.path, 'backup'),
    /** The environment in which commands work on the service. */
    env: here,

    backUp: async (...options: string[]) =>
      JSON.parse(
        await mustRunInProcess(['backup', join(folder.path, 'backup'), '--json', ...options], here),
      ),

    restore,

    /** Restores the backup to a new data directory, starts a server on it and gives it to `look`. */
    async restored<T>(look: (again: Awaited<ReturnType<typeof startService>>) => Promise<T>) {
      const to = await restore()
      const { SVC_DATABASE_URL: _, ...plain } = env
      const token = { SVC_ADMIN_TOKEN: service.adminToken }
      await using again = await startService({ dataDir: to, env: { ...plain, ...token } })
      return await look(again)
    },

    /** Pushes a new commit to a repository. */
    async push(name: string, target = 'main'): Promise<void> {
      await project.commit(`file-${Math.random()}`)
      await project.git('push', '--quiet', service.admin.remote(name), `HEAD:${target}`)
    },

    refs: () => refsOf(service),

    [Symbol.asyncDispose]: () => held.disposeAsync(),
  }
}
