import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { programs } from './programs.ts'

export type Postgres = {
  url: string
  /** Its data directory. */
  data: string
  /** Ends it as a crash would; its data stays. */
  halt: () => void
  /** Starts it again, on the same port. */
  resume: () => void
  /** Ends it and removes its data. */
  stop: () => void
}

/** Starts a PostgreSQL of its own on a free loopback port; undefined when the program is missing. */
export async function startPostgres(): Promise<Postgres | undefined> {
  const bin = programs.postgres.find()
  if (bin === undefined) return undefined
  const create = (data: string) => {
    const options = ['-U', 'svc', '--auth=trust', '--no-sync', '-E', 'UTF8']
    runAsServer(join(bin, 'initdb'), ['-D', data, ...options])
  }
  return await startOn(bin, create)
}

/** Starts a standby of another PostgreSQL, which follows it; `promote` makes it a primary. */
export async function startStandby(primary: Postgres): Promise<Postgres & { promote: () => void }> {
  const bin = programs.postgres.find() ?? ''
  const url = new URL(primary.url)
  // Its name is what `synchronous_standby_names` calls it.
  url.searchParams.set('application_name', 'standby')
  const create = (data: string) =>
    runAsServer(join(bin, 'pg_basebackup'), ['-D', data, '-d', url.href, '-R', '--no-sync'])
  const standby = await startOn(bin, create)
  return {
    ...standby,
    promote: () => runAsServer(join(bin, 'pg_ctl'), ['-D', standby.data, '-w', 'promote']),
  }
}

async function startOn(bin: string, create: (data: string) => void): Promise<Postgres> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-postgres-'))
  chmodSync(folder, 0o777)
  const data = join(folder, 'data')
  const port = await freePort()
  create(data)
  const options = `-p ${port} -k ${folder} -c listen_addresses=127.0.0.1 -c fsync=off`
  const control = join(bin, 'pg_ctl')
  const resume = () =>
    runAsServer(control, ['-D', data, '-o', options, '-l', join(folder, 'log'), '-w', 'start'])
  const halt = () => runAsServer(control, ['-D', data, '-m', 'immediate', '-w', 'stop'])
  let isRunning = false
  const postgres: Postgres = {
    data,
    url: `postgres://svc@127.0.0.1:${port}/postgres`,
    halt() {
      halt()
      isRunning = false
    },
    resume() {
      resume()
      isRunning = true
    },
    stop() {
      if (isRunning) halt()
      isRunning = false
      rmSync(folder, { recursive: true, force: true })
    },
  }
  postgres.resume()
  // A test, or the command, may be ended by a signal.
  process.once('exit', postgres.stop)
  return postgres
}

// PostgreSQL refuses to run as root; its package brings a user for it.
function runAsServer(command: string, args: string[]): void {
  const isRoot = process.getuid?.() === 0
  const [program, ...rest] = isRoot
    ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups', command, ...args]
    : [command, ...args]
  execFileSync(program ?? command, rest, { stdio: 'pipe', cwd: '/' })
}
