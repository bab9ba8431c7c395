import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { newTokenString } from '#base/token-string.ts'
import { freePort } from './free-port.ts'
import { testSettings } from './test-settings.ts'

const program = fileURLToPath(new URL('../../bin/svc', import.meta.url))

/** The program that tests start: with SVC_TEST_STORE=shared, one that runs it on a shared store. */
export const launcher = process.env.SVC_TEST_LAUNCHER ?? program

export type Answer = {
  status: number
  headers: Headers
  // What the API answers is what the tests are about; they say what they expect of it.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  body: any
  text: string
}

export type Service = Awaited<ReturnType<typeof startService>>
export type Client = ReturnType<typeof createClient>

type Options = {
  env?: Record<string, string>
  dataDir?: string
  /** The launcher to start, by default the one of this checkout. */
  program?: string
  /** A command that executes the program: the words before it. */
  prefix?: string[]
}

const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** Starts the real program on a free port, by default with a data directory of its own that goes with it. */
export async function startService({ env = {}, dataDir, ...rest }: Options = {}) {
  const { program = launcher, prefix = [] } = rest
  const [command = program, ...args] = [...prefix, program, 'serve']
  const folder = dataDir ?? (await mkdtemp(join(tmpdir(), 'svc-test-')))
  const adminToken = env.SVC_ADMIN_TOKEN ?? newTokenString()
  const { child, log, listening } = await launch([command, ...args], {
    PATH: process.env.PATH,
    ...testSettings,
    // Some tests start another server on the same port.
    SVC_PORT: String(await freePort()),
    SVC_DATA_DIR: folder,
    SVC_ADMIN_TOKEN: adminToken,
    ...env,
  })
  const { http: url, ssh }: { http: string; ssh: string | null } = JSON.parse(listening)
  const admin = createClient(url, adminToken)

  async function end(signal: NodeJS.Signals): Promise<number | null> {
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit')
      child.kill(signal)
      await exited
    }
    return child.exitCode
  }

  return {
    url,
    /** Where it serves SSH, an address without a path; empty when it does not. */
    ssh: ssh ?? '',
    sshPort: Number(ssh?.split(':').at(-1)),
    dataDir: folder,
    pid: child.pid ?? 0,
    admin,
    adminToken,
    log,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    /** Sends a signal and waits for the end; the exit code. */
    end,

    /** A client with a token of its own, made by the admin. */
    async client(wanted: { permissions?: string[]; username?: string; refs?: string[] } = {}) {
      const { body } = await admin.post('/tokens', { name: 'test', ...wanted })
      return createClient(url, body.token, { id: body.id, username: body.username })
    },

    async [Symbol.asyncDispose]() {
      await end('SIGKILL')
      if (dataDir === undefined) await rm(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** The same, which serves SSH, too. */
export async function startServiceWithSsh(options: Options = {}): Promise<Service> {
  const sshPort = String(await freePort())
  return startService({ ...options, env: { SVC_SSH_PORT: sshPort, ...options.env } })
}

/** Calls the API with a token. */
export function createClient(url: string, token: string, who = { id: '', username: 'admin' }) {
  async function call(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return toAnswer(response)
  }
  return {
    ...who,
    url,
    token,
    /** The address of a repository with the token in it, for git. */
    remote: (name: string) => `${url.replace('://', `://git:${token}@`)}/repos/${name}.git`,
    call,
    get: (path: string) => call('GET', path),
    post: (path: string, body?: unknown) => call('POST', path, body),
    put: (path: string, body?: unknown) => call('PUT', path, body),
    patch: (path: string, body?: unknown) => call('PATCH', path, body),
    delete: (path: string) => call('DELETE', path),
  }
}

export async function toAnswer(response: Response): Promise<Answer> {
  const text = await response.text()
  const isJson = /json/.test(response.headers.get('content-type') ?? '')
  const body = isJson && text !== '' ? JSON.parse(text) : undefined
  return { status: response.status, headers: response.headers, body, text }
}

type Launched = { child: ChildProcess; log: () => string; listening: string }

/** Starts the program; the first line of its output says where it listens. */
async function launch(words: string[], env: NodeJS.ProcessEnv): Promise<Launched> {
  const [command = '', ...args] = words
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  running.add(child)
  child.once('exit', () => running.delete(child))
  let text = ''
  child.stderr.setEncoding('utf8').on('data', (more: string) => {
    text += more
  })
  const log = () => text
  try {
    return { child, log, listening: await firstLine(child, log) }
  } catch (error) {
    // Programs with libfaketime race for its semaphore when one starts while another ends, and one of them may fail.
    if (text.includes('libfaketime: In ft_shm_init()')) return launch(words, env)
    throw error
  }
}

async function firstLine(child: ChildProcess, log: () => string): Promise<string> {
  if (!child.stdout) throw new Error('no output')
  for await (const line of createInterface({ input: child.stdout })) return line
  throw new Error(`The service did not start:\n${log()}`)
}
