import { availableParallelism, homedir, hostname } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import { runRunner } from '#actions/runner/runner.ts'
import { toSandboxOptions } from '#actions/runner/runner-configuration.ts'
import { RunnerError } from '#actions/runner/runner-folder.ts'
import type { Log } from '#base/log.ts'
import { Sensitive } from '#base/sensitive.ts'
import { isTokenString } from '#base/token-string.ts'
import { parseBaseUrl } from '#config/setting-values.ts'
import type { Settings } from '#config/settings.ts'
import { UsageError } from '../terminal/command-errors.ts'

/** The options of the command line. */
export type RunnerCommandOptions = {
  server?: string
  token?: string
  name?: string
  label?: string[]
  jobs?: string
  folder?: string
}

type Options = {
  settings: Settings
  version: string
  path: string
  environment: Record<string, string | undefined>
  /** Reads the first line of standard input. */
  readLine: () => Promise<string>
  log: Log
  signal: AbortSignal
}

const maxJobs = 1000
const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/

/** `svc runner`: executes workflow runs of a server until `signal` is aborted. */
export async function startRunner(flags: RunnerCommandOptions, options: Options): Promise<void> {
  const { settings, version, path, environment, log, signal } = options
  const server = toServer(flags.server)
  const token = await toToken(flags, options)
  if (server.protocol === 'http:' && !loopback.test(server.hostname)) {
    log.warn({ server: server.href }, 'token and secrets sent over the network unencrypted')
  }
  await runRunner({
    server,
    token,
    name: (flags.name ?? hostname()).slice(0, 200) || 'runner',
    labels: flags.label ?? [],
    folder: flags.folder === undefined ? defaultFolder(environment) : resolve(flags.folder),
    jobs: toJobs(flags.jobs) ?? settings.runnerJobs ?? availableParallelism(),
    sandbox: toSandboxOptions(settings),
    failedWorkspaceMs: settings.failedWorkspaceSeconds * 1000,
    idleMs: undefined,
    path,
    version,
    log,
    signal,
  })
}

function toServer(text: string | undefined): URL {
  if (text === undefined) throw new UsageError('--server: the address of the service is required.')
  const address = parseBaseUrl(text)
  if (address !== undefined) return new URL(address)
  throw new RunnerError(
    '--server: it takes the http or https address of the service, without user, query or fragment.',
  )
}

// All users of a machine can read its command lines, so there are two other ways to pass the token.
async function toToken(flags: RunnerCommandOptions, options: Options): Promise<Sensitive<string>> {
  const { environment, readLine } = options
  const value = flags.token ?? environment.SVC_RUNNER_TOKEN ?? ''
  const text = value === '-' ? (await readLine()).trim() : value
  if (text === '') {
    throw new RunnerError(
      'A token is required: set SVC_RUNNER_TOKEN, or use --token - and pass the token on standard input. ' +
        'Create one on the server with: svc tokens create --permission runner',
    )
  }
  if (!isTokenString(text)) {
    throw new RunnerError('The token is mistyped: a token begins with svc_ and has 40 characters.')
  }
  return new Sensitive(text)
}

function defaultFolder({ XDG_CACHE_HOME = '' }: Record<string, string | undefined>): string {
  // The XDG Base Directory Specification requires relative paths to be ignored.
  const cache = isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : join(homedir(), '.cache')
  return join(cache, 'svc-runner')
}

function toJobs(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const value = /^\d{1,4}$/.test(text) ? Number(text) : 0
  if (value >= 1 && value <= maxJobs) return value
  throw new RunnerError(`--jobs: it takes a whole number from 1 to ${maxJobs}.`)
}
