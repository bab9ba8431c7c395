import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { mustRunInProcess, refsOf } from './backups.ts'
import { createProject, projectAt, temporaryFolder } from './git.ts'
import { type InProcess, startInProcess } from './in-process.ts'
import { type Service, startService } from './service.ts'

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
  const { adminToken } = service
  const held = stack.move()
  return withServer(siteIn({ folder: folder.path, project, adminToken, env, held }), service)
}

/** The data directory of such a service after its end, of which each test gets a copy: most of them need no server. */
export async function createBackupOriginal() {
  const original = await createBackupSite()
  const { adminToken, dataDir } = original.service
  const ids = { site: await original.idOf('site'), page: await original.idOf('page') }
  await original.service.end('SIGTERM')

  /** A copy without a server. */
  async function copy() {
    await using stack = new AsyncDisposableStack()
    const folder = stack.use(await temporaryFolder())
    const path = join(folder.path, 'project')
    await cp(dataDir, join(folder.path, 'data'), { recursive: true, preserveTimestamps: true })
    await cp(original.project.path, path, { recursive: true })
    const held = stack.move()
    const site = siteIn({
      folder: folder.path,
      project: projectAt(path),
      adminToken,
      env: {},
      held,
    })
    return {
      ...site,
      ids,
      /** The directory of a repository. */
      pathOf: (name: keyof typeof ids) =>
        join(site.dataDir, 'repositories', ids[name].slice(-2), `${ids[name]}.git`),
    }
  }

  return {
    copy,

    /** A copy with a running server. */
    async start(env: Record<string, string> = {}) {
      const site = await copy()
      const started = { ...env, SVC_ADMIN_TOKEN: adminToken }
      const service = site.held.use(await startService({ dataDir: site.dataDir, env: started }))
      return { ...site, ...withServer(site, service) }
    },

    [Symbol.asyncDispose]: original[Symbol.asyncDispose],
  }
}

type Parts = {
  folder: string
  project: ReturnType<typeof projectAt>
  adminToken: string
  env: Record<string, string>
  held: AsyncDisposableStack
}

function siteIn({ folder, project, adminToken, env, held }: Parts) {
  const dataDir = join(folder, 'data')
  const backup = join(folder, 'backup')
  const here = { SVC_DATA_DIR: dataDir, ...env }
  let restores = 0

  /** Restores the backup; the new data directory. */
  async function restore(): Promise<string> {
    const to = join(folder, `restored-${restores++}`)
    await mustRunInProcess(['restore', backup], { SVC_DATA_DIR: to })
    return to
  }

  return {
    project,
    folder,
    dataDir,
    adminToken,
    held,
    /** Where backups go. */
    backup,
    /** The environment in which commands work on the service. */
    env: here,

    backUp: async (...options: string[]) =>
      JSON.parse(await mustRunInProcess(['backup', backup, '--json', ...options], here)),

    restore,

    /** Restores the backup to a new data directory, starts a server on it and gives it to `look`. */
    async restored<T>(look: (again: InProcess) => Promise<T>) {
      const { SVC_DATABASE_URL: _, ...plain } = env
      await using again = await startInProcess({
        ...plain,
        SVC_DATA_DIR: await restore(),
        SVC_ADMIN_TOKEN: adminToken,
      })
      return await look(again)
    },

    refs: () => refsOf({ dataDir }),

    [Symbol.asyncDispose]: () => held.disposeAsync(),
  }
}

function withServer(site: ReturnType<typeof siteIn>, service: Service) {
  const { project } = site
  return {
    ...site,
    service,
    idOf: async (name: string): Promise<string> =>
      (await service.admin.get(`/repos/${name}`)).body.id,

    /** Pushes a new commit to a repository. */
    async push(name: string, target = 'main'): Promise<void> {
      await project.commit(`file-${Math.random()}`)
      await project.git('push', '--quiet', service.admin.remote(name), `HEAD:${target}`)
    },
  }
}
