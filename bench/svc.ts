import { cp } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { SshKey } from '../test/support/openssh.ts'
import { killTree } from '../test/support/processes.ts'
import { launcher, startService } from '../test/support/service.ts'
import { confineServer } from './isolation.ts'
import type { Host } from './peers.ts'
import { run } from './processes.ts'
import type { Target } from './wire-client.ts'

export type SvcOptions = {
  dataDir: string
  env?: Record<string, string>
  /** The launcher to start, by default the one of this checkout. */
  program?: string
}

const settings = { SVC_LOG_LEVEL: 'warn', SVC_SSH_PORT: '0', SVC_RUNNER: 'on' }

/** A completed run. */
type Run = { steps: { startedAt: number | null; completedAt: number | null }[] }

export type Svc = Awaited<ReturnType<typeof startSvc>>

/** Starts svc on a data directory that outlives it. */
export async function startSvc({ dataDir, env, program = launcher }: SvcOptions) {
  await using starting = new AsyncDisposableStack()
  const { prefix, cpuMs } = starting.use(confineServer())
  const service = await startService({ dataDir, env: { ...settings, ...env }, prefix, program })
  const { admin } = service
  starting.defer(async () => {
    killTree(service.pid)
    await service.end('SIGKILL')
  })

  async function call(response: ReturnType<typeof admin.get>) {
    const { status, text, body } = await response
    if (status >= 300) throw new Error(`svc responded ${status}: ${text}`)
    return body
  }

  async function copyFiles(name: string, source: string, isLeftOut = (_: string) => false) {
    const { id } = await call(admin.post('/repos', { name }))
    const path = join(dataDir, 'repositories', id.slice(-2), `${id}.git`)
    const filter = (file: string) => !isLeftOut(basename(file))
    await cp(join(source, 'objects'), join(path, 'objects'), { recursive: true, filter })
    await cp(join(source, 'packed-refs'), join(path, 'packed-refs'))
  }

  async function maintain(name: string): Promise<void> {
    const env = { PATH: process.env.PATH, SVC_DATA_DIR: dataDir }
    await run(program, ['repos', 'maintain', name], { env })
  }

  const host: Host = {
    async create(name, objectFormat) {
      await call(admin.post('/repos', { name, ...(objectFormat && { objectFormat }) }))
      return admin.remote(name)
    },
    // With packed refs, as after a restore: in an import git writes a file per ref, which takes minutes.
    async copy(name, source) {
      await copyFiles(name, source)
      return admin.remote(name)
    },
    remove: (name) => call(admin.delete(`/repos/${name}`)),
  }
  const running = starting.move()
  return {
    host,
    /** Imports a repository, and waits until it is ready. */
    import: (source: string, name: string) => call(admin.post('/repos/import', { source, name })),

    /** Starts a run of a workflow file, and returns its id. */
    async startRun(repository: string, file: string): Promise<string> {
      const { id } = await call(admin.post(`/repos/${repository}/workflows`, { files: [file] }))
      return id
    },

    /** Waits for the end of a run. Throws when it did not succeed. */
    async untilEnd(repository: string, id: string): Promise<Run> {
      for (;;) {
        const run = await call(admin.get(`/repos/${repository}/workflows/${id}?wait=30`))
        if (run.conclusion === 'success') return run.result
        if (run.conclusion) throw new Error(`A run ended with ${run.conclusion}: ${run.fault}`)
      }
    },

    admin,
    pid: service.pid,
    /** Returns the CPU time of svc and its descendants so far, in ms. */
    cpuMs,
    url: service.url,
    adminToken: service.adminToken,
    /** A repository, for requests by the wire client. */
    target: (name: string): Target => ({
      url: `${service.url}/repos/${name}.git`,
      authorization: `Basic ${Buffer.from(`git:${service.adminToken}`).toString('base64')}`,
      cpuMs,
    }),
    /** A path of the API, for requests by the wire client. */
    apiTarget: (path: string): Target => ({
      url: `${service.url}${path}`,
      authorization: `Bearer ${service.adminToken}`,
      cpuMs,
    }),
    /** Maintains a repository with `svc repos maintain`. */
    maintain,

    /** Copies a repository without the graph of its commits, which svc then writes as after an import. */
    async copyAndMaintain(name: string, source: string): Promise<void> {
      await copyFiles(name, source, (file) => file === 'commit-graph')
      await maintain(name)
    },

    /** Calls the API as an admin, and returns the response. */
    call: (method: string, path: string, body?: object) => call(admin.call(method, path, body)),

    /** The same server over SSH, for the owner of the key. */
    async overSsh({ publicKey }: SshKey): Promise<Host> {
      if (!service.ssh) throw new Error('svc has no SSH address.')
      await call(admin.post('/keys', { publicKey, name: 'bench' }))
      return {
        ...host,
        async create(name, objectFormat) {
          await host.create(name, objectFormat)
          return `${service.ssh}/${name}.git`
        },
      }
    },

    /** Stops svc with a signal. */
    stop: () => service.end('SIGTERM'),

    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
