import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import type { SshKey } from '../test/support/openssh.ts'
import { killTree } from '../test/support/processes.ts'
import { launcher, startService } from '../test/support/service.ts'
import { createEnclosure } from './enclosure.ts'
import type { Host } from './host.ts'
import { run } from './program.ts'

type Options = {
  dataDir: string
  env?: Record<string, string>
  /** The launcher to start, by default the one of this checkout. */
  program?: string
}

const settings = { SVC_LOG_LEVEL: 'warn', SVC_SSH_PORT: '0', SVC_RUNNER: 'on' }

/** What is told of a run that has ended. */
type Run = { steps: { startedAt: number | null }[] }

/** Starts svc, the subject of all measurements, on a data directory that outlives it. */
export async function startSubject({ dataDir, env, program = launcher }: Options) {
  await using starting = new AsyncDisposableStack()
  const enclosure = starting.use(createEnclosure())
  const { prefix } = enclosure
  const service = await startService({ dataDir, env: { ...settings, ...env }, prefix, program })
  const { admin } = service
  starting.defer(async () => {
    killTree(service.pid)
    await service.end('SIGKILL')
  })

  async function call(answer: ReturnType<typeof admin.get>) {
    const { status, text, body } = await answer
    if (status >= 300) throw new Error(`svc answered ${status}: ${text}`)
    return body
  }

  const host: Host = {
    async create(name) {
      await call(admin.post('/repos', { name }))
      return admin.remote(name)
    },
    // As a restored backup comes: an import would have git write a file for each ref, which takes minutes.
    async copy(name, source) {
      const { id } = await call(admin.post('/repos', { name }))
      const path = join(dataDir, 'repositories', id.slice(-2), `${id}.git`)
      await cp(join(source, 'objects'), join(path, 'objects'), { recursive: true })
      await cp(join(source, 'packed-refs'), join(path, 'packed-refs'))
      return admin.remote(name)
    },
    remove: (name) => call(admin.delete(`/repos/${name}`)),
  }
  const running = starting.move()
  return {
    host,
    /** Imports a repository, and waits until it is there. */
    import: (source: string, name: string) => call(admin.post('/repos/import', { source, name })),

    /** Asks for a run of a workflow file; its id. */
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

    pid: service.pid,
    /** The processor time that it took so far, with all that it started, in ms. */
    cpuMs: enclosure.cpuMs,
    url: service.url,
    adminToken: service.adminToken,
    /** A repository of it, to be asked on the wire. */
    target: (name: string) => ({
      url: `${service.url}/repos/${name}.git`,
      authorization: `Basic ${Buffer.from(`git:${service.adminToken}`).toString('base64')}`,
      cpuMs: enclosure.cpuMs,
    }),
    /** A path of its API, to be requested on the wire. */
    apiTarget: (path: string) => ({
      url: `${service.url}${path}`,
      authorization: `Bearer ${service.adminToken}`,
      cpuMs: enclosure.cpuMs,
    }),
    /** Has the files of a repository put in order, as an administrator would. */
    async maintain(name: string): Promise<void> {
      const env = { PATH: process.env.PATH, SVC_DATA_DIR: dataDir }
      await run(launcher, ['repos', 'maintain', name], { env })
    },

    /** Calls the API as an admin; what it answers. */
    call: (method: string, path: string, body?: object) => call(admin.call(method, path, body)),

    /** The same server over SSH, for whoever has the key. */
    async overSsh({ publicKey }: SshKey): Promise<Host> {
      if (!service.ssh) throw new Error('svc does not say where it serves Git over SSH.')
      await call(admin.post('/keys', { publicKey, name: 'bench' }))
      return {
        ...host,
        async create(name) {
          await host.create(name)
          return `${service.ssh}/${name}.git`
        },
      }
    },

    /** Ends it as an administrator would. */
    stop: () => service.end('SIGTERM'),

    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
