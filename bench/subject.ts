import type { SshKey } from '../test/support/openssh.ts'
import { killTree } from '../test/support/processes.ts'
import { startService } from '../test/support/service.ts'
import type { Host } from './host.ts'

type Options = { dataDir: string; env?: Record<string, string> }

const settings = { SVC_LOG_LEVEL: 'warn', SVC_SSH_PORT: '0' }

/** Starts svc, the subject of all measurements, on a data directory that outlives it. */
export async function startSubject({ dataDir, env }: Options) {
  const service = await startService({ dataDir, env: { ...settings, ...env } })
  const { admin } = service

  async function call(answer: ReturnType<typeof admin.get>): Promise<void> {
    const { status, text } = await answer
    if (status >= 300) throw new Error(`svc answered ${status}: ${text}`)
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

    pid: service.pid,
    url: service.url,

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
