import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { CommanderError } from 'commander'
import { codeOf } from '#base/error-code.ts'
import { printable } from '#base/format.ts'
import { closeInheritedDescriptors } from '#base/inherited-descriptors.ts'
import { serverThreads } from '#base/outbound/name-lookups.ts'
import type { DoctorCommandOptions } from '#cli/local/doctor-command.ts'
import { createProgram, toFailure } from '#cli/program.ts'
import type { RunOptions } from '#cli/runs/run-workflows.ts'
import type { RunnerCommandOptions } from '#cli/runs/runner-command.ts'
import { openKeyboard, toSafeTerminal } from '#cli/terminal/terminal.ts'
import { readSettings } from '#config/settings.ts'
import type { App, AppTools } from './app.ts'

const version: string = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
).version

const { PATH: searchPath = '/usr/local/bin:/usr/bin:/bin' } = process.env
const inputMaxLength = 65_536
const fallbackColumns = 80
const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const

// Set by commands that handle interruption themselves.
let interrupted: AbortController | undefined

// The reader may close the pipe early: `| head`. Replaced by commands that have something to stop or to keep.
let onOutputLost = (): void => process.exit(1)
process.stdout.on('error', (error) => {
  if (codeOf(error) !== 'EPIPE')
    process.stderr.write(`svc: Standard output failed: ${error.message}\n`)
  onOutputLost()
})

const terminal = toSafeTerminal({
  out: (text) => process.stdout.write(text),
  write: (bytes) =>
    new Promise((resolve, reject) => {
      process.stdout.write(bytes, (error) => (error ? reject(error) : resolve()))
    }),
  err: (text) => process.stderr.write(text),
  interruption,
  read,
  keyboard: () => openKeyboard(process),
  ask: process.stdin.isTTY ? ask : undefined,
  askHidden: process.stdin.isTTY ? askHidden : undefined,
  progress: showProgress,
})

void main()

async function main(): Promise<void> {
  try {
    await createProgram({
      version,
      terminal,
      client: {
        environment: process.env,
        folder: process.cwd(),
        launcher: fileURLToPath(new URL('../bin/svc', import.meta.url)),
        columns: process.stdout.isTTY ? process.stdout.columns || fallbackColumns : undefined,
        setExitCode: (code) => {
          process.exitCode = code
        },
      },
      serve,
      mcp,
      withApp,
      withTools,
      doctor: (options) => doctor(options, false),
      runner,
      runnerDoctor: (options) => doctor({ fsck: false, ...options }, true),
      run,
    }).parseAsync()
  } catch (error) {
    const { text, exitCode } = toFailure(error)
    if (error instanceof CommanderError) process.exit(exitCode)
    terminal.err(text)
    process.exitCode ??= exitCode
  }
}

async function serve(): Promise<void> {
  onOutputLost = () => {}
  // Node reads it when it first uses a thread of its pool.
  process.env.UV_THREADPOOL_SIZE ??= String(serverThreads)
  const threads = Number(process.env.UV_THREADPOOL_SIZE)
  const { dropStartupGarbage } = await import('#base/startup-garbage.ts')
  const { writeAdminToken } = await import('#config/data-directory.ts')
  const { unknownVariables } = await import('#config/unknown-variables.ts')
  const options = { ...(await toOptions()), threads }
  for (const { message } of unknownVariables(process.env)) options.log.warn(message)
  // Loaded lazily: no other command needs it.
  const { startService } = await import('./server.ts')
  const service = await startService(options)
  // Only now: a path in the settings may be an inherited descriptor, such as /dev/fd/63.
  closeInheritedDescriptors()
  let stopping = false
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (stopping) {
        service.abandon()
        process.exit(exitCodes[signal])
      }
      stopping = true
      options.log.info(
        { signal },
        'stopping; running requests may finish, a second signal exits at once',
      )
      service.stop().then(
        () => process.exit(0),
        (error) => {
          options.log.error({ err: error }, 'clean shutdown failed')
          process.exit(1)
        },
      )
    })
  }
  const isOnTerminal = process.stderr.isTTY
  // No login link where standard error may be stored in logs that others can read.
  const login = isOnTerminal ? await service.createFirstLogin() : undefined
  if (service.newAdminToken !== undefined) {
    const { baseUrl, sshUrl, newAdminToken: value } = service
    // Not printed unless on a terminal: standard error may be stored in logs that others can read.
    const token = isOnTerminal
      ? { value }
      : { path: resolve(await writeAdminToken(options.settings.dataDir, value)) }
    const { toWelcome } = await import('#cli/welcome.ts')
    process.stderr.write(toWelcome({ baseUrl, sshUrl, token, loginUrl: login?.url }))
  } else if (login) {
    const { toLoginLine } = await import('#cli/welcome.ts')
    process.stderr.write(`${toLoginLine(login.url)}\n`)
  }
  dropStartupGarbage()
  const { http, ssh } = service
  process.stdout.write(`${JSON.stringify({ event: 'listening', http, ssh })}\n`)
}

async function mcp({ server: name }: { server?: string }): Promise<void> {
  const { toServer } = await import('#cli/servers/connect.ts')
  const server = await toServer({ environment: process.env, folder: process.cwd() }, name)
  // Loaded lazily: no other command needs it.
  const { serveMcpOnStdio } = await import('#cli/mcp-command.ts')
  serveMcpOnStdio({
    ...{ version, server, warn: terminal.err },
    ...{ input: process.stdin, output: process.stdout },
  })
}

async function withApp(run: Parameters<Parameters<typeof createProgram>[0]['withApp']>[0]) {
  // Commands report their own results, so only warnings are logged.
  const { openExistingApp } = await import('./app.ts')
  await using app = await openExistingApp(await toOptions('warn'))
  closeInheritedDescriptors()
  endOnSignal(app.git)
  await run(app)
}

async function withTools(run: (tools: AppTools) => Promise<void>) {
  const { createTools } = await import('./app.ts')
  const tools = createTools(await toOptions('warn'))
  closeInheritedDescriptors()
  endOnSignal(tools.git)
  await run(tools)
}

function endOnSignal(git: Pick<App['git'], 'killAll'>): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (interrupted && !interrupted.signal.aborted) {
        process.exitCode = exitCodes[signal]
        interrupted.abort(new Error('interrupted'))
        return
      }
      // Git processes have their own process groups, so they did not receive the signal.
      git.killAll()
      process.exit(exitCodes[signal])
    })
  }
}

// Without openExistingApp, which requires a healthy data directory and migrates the database.
async function doctor(
  { repository, fsck, json = false }: DoctorCommandOptions,
  ofRunner: boolean,
): Promise<void> {
  // Loaded lazily: a server does not need it.
  const { createDoctor } = await import('#ops/doctor/doctor.ts')
  const { runDoctor } = await import('#cli/local/doctor-command.ts')
  const { createLog } = await import('#base/log.ts')
  const { stdout, stderr, env } = process
  const show = (text = '') => {
    if (stderr.isTTY) showProgress(text)
  }
  const examination = createDoctor({
    environment: env,
    path: searchPath,
    version,
    log: createLog({ level: 'silent', output: stderr }),
    objectsOf: repository ?? fsck,
    ofRunner,
    onProgress: show,
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      examination.abandon()
      process.exit(exitCodes[signal])
    })
  }
  onOutputLost = () => {
    examination.abandon()
    process.exit(1)
  }
  const isColored = stdout.isTTY && !env.NO_COLOR
  const isHealthy = await runDoctor({
    doctor: examination,
    json,
    terminal,
    isColored,
    clearProgress: show,
  })
  if (!isHealthy) process.exitCode = 1
  // A git that hangs would keep the program from exiting.
  examination.abandon()
}

async function run(files: string[], runOptions: RunOptions): Promise<void> {
  // Loaded lazily: a server does not need it.
  const { runWorkflows } = await import('#cli/runs/run-workflows.ts')
  const [cancel, kill] = [new AbortController(), new AbortController()]
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (kill.signal.aborted && process.exitCode !== undefined) process.exit(exitCodes[signal])
      process.exitCode ??= exitCodes[signal]
      if (cancel.signal.aborted) kill.abort('Interrupted.')
      else
        cancel.abort('Interrupted; always() steps get one minute. A second signal stops at once.')
    })
  }
  const { settings, version } = await toOptions('warn')
  const environment = process.env
  const options = {
    settings,
    version,
    environment,
    path: searchPath,
    folder: process.cwd(),
    terminal,
  }
  // Temporary files are removed all the same.
  onOutputLost = () => kill.abort('Standard output was closed.')
  const code = await runWorkflows(files, runOptions, {
    ...options,
    signal: cancel.signal,
    kill: kill.signal,
  })
  // After an interruption the signal's exit code stays, unless the run succeeded.
  if (code === 0) process.exitCode = code
  else process.exitCode ??= code
}

async function runner(runnerOptions: RunnerCommandOptions): Promise<void> {
  // Loaded lazily: a server does not need it.
  const { startRunner } = await import('#cli/runs/runner-command.ts')
  // Hides the command line, which may contain the token, from ps(1).
  process.title = 'svc runner'
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(exitCodes[signal])
      stop.abort()
    })
  }
  await startRunner(runnerOptions, {
    ...(await toOptions()),
    environment: process.env,
    readLine,
    signal: stop.signal,
  })
}

async function readLine(): Promise<string> {
  const lines = createInterface({ input: process.stdin })
  try {
    for await (const line of lines) return line
    return ''
  } finally {
    lines.close()
  }
}

async function toOptions(defaultLevel?: 'warn') {
  const { createLog } = await import('#base/log.ts')
  const settings = readSettings(process.env)
  const level = process.env.SVC_LOG_LEVEL ? settings.logLevel : (defaultLevel ?? settings.logLevel)
  const log = createLog({ level, output: process.stderr })
  return { settings, log, path: searchPath, version }
}

function showProgress(text: string): void {
  const { stderr } = process
  const columns = stderr.columns || fallbackColumns
  if (stderr.isTTY) stderr.write(`\r\x1b[K${printable(text).slice(0, columns - 1)}`)
  else if (text !== '') stderr.write(`${printable(text)}\n`)
}

function interruption(): AbortSignal {
  interrupted ??= new AbortController()
  return interrupted.signal
}

async function read(): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin) {
    chunks.push(chunk)
    length += chunk.length
    if (length > inputMaxLength) break
  }
  return Buffer.concat(chunks)
}

async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return await lines.question(question)
  } catch (error) {
    // Ctrl-C or Ctrl-D.
    process.stderr.write('\n')
    throw new Error('Nothing was changed.', { cause: error })
  } finally {
    lines.close()
  }
}

// Readline in terminal mode turns off the terminal's echo, and echoes to the given output: here to none.
async function askHidden(question: string): Promise<string> {
  const output = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output, terminal: true })
  // Only now: keys typed earlier would be echoed.
  process.stderr.write(question)
  const closed = new AbortController()
  lines.on('close', () => closed.abort())
  try {
    return await lines.question('', { signal: closed.signal })
  } catch (error) {
    throw new Error('Nothing was changed.', { cause: error })
  } finally {
    lines.close()
    process.stderr.write('\n')
  }
}
