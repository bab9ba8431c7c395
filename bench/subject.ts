import type { SshKey } from '../test/support/openssh.ts'
import { killTree } from '../test/support/processes.ts'
import { startService } from '../test/support/service.ts'
import type { Host } from './host.ts'

type Options = { dataDir: string; env?: Record<string, string> }

const settings = { SVC_LOG_LEVEL: 'warn', SVC_SSH_PORT: '0', SVC_RUNNER: 'on' }

/** What is told of a run that has ended. */
type Run = { steps: { startedAt: number | null }[] }

/** Starts svc, the subject of all measurements, on a data directory that outlives it. */
export async function startSubject({ dataDir, env }: Options) {
  const service = await startService({ dataDir, env: { ...settings, ...env } })
  const { admin } = service

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
    remove: (name) => call(admin.delete(`/repos/${name}`)),
  }
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
    url: service.url,
    adminToken: service.adminToken,
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

    async [Symbol.asyncDispose]() {
      killTree(service.pid)
      await service.end('SIGKILL')
    },
  }
}
