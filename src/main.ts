import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline/promises'
import { openExistingApp, startService } from './app.ts'
import { printable } from './base/columns.ts'
import { createLog } from './base/log.ts'
import { Problem } from './base/problem.ts'
import { dropStartupGarbage } from './base/startup-garbage.ts'
import { createProgram } from './commands/program.ts'
import type { Terminal } from './commands/terminal.ts'
import { toWelcome } from './commands/welcome.ts'
import { DataDirectoryError } from './config/data-directory.ts'
import { readSettings, SettingsError } from './config/settings.ts'

const version: string = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
).version

const inputMaxLength = 65_536
const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const

const terminal: Terminal = {
  out: (text) => process.stdout.write(text),
  read,
  ask: process.stdin.isTTY ? ask : undefined,
  progress: showProgress,
  interruptible,
}

try {
  await createProgram({ version, terminal, serve, withApp }).parseAsync()
} catch (error) {
  process.stderr.write(`${explain(error).replace(/^(?=.)/gm, 'svc: ')}\n`)
  process.exitCode ??= error instanceof SettingsError ? 2 : 1
}

async function serve(): Promise<void> {
  const options = toOptions()
  const service = await startService(options)
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
        'stopping: running requests may finish; a second signal ends them',
      )
      service.stop().then(
        () => process.exit(0),
        (error) => {
          options.log.error({ err: error }, 'the service did not stop cleanly')
          process.exit(1)
        },
      )
    })
  }
  if (service.newAdminToken !== undefined) {
    const { baseUrl, sshUrl, newAdminToken: token } = service
    process.stderr.write(toWelcome({ baseUrl, sshUrl, token }))
  }
  dropStartupGarbage()
  const { http, ssh } = service
  process.stdout.write(`${JSON.stringify({ event: 'listening', http, ssh })}\n`)
}

async function withApp(run: Parameters<Parameters<typeof createProgram>[0]['withApp']>[0]) {
  // A command says by itself how it ended.
  await using app = await openExistingApp(toOptions('warn'))
  await run(app)
}

function toOptions(usualLevel?: 'warn') {
  const settings = readSettings(process.env)
  const level = process.env.SVC_LOG_LEVEL ? settings.logLevel : (usualLevel ?? settings.logLevel)
  const log = createLog({ level, output: process.stderr })
  const { PATH: path = '/usr/local/bin:/usr/bin:/bin', NODE_COMPILE_CACHE } = process.env
  return { settings, log, path, environment: { NODE_COMPILE_CACHE }, version }
}

function showProgress(text: string): void {
  const { stderr } = process
  if (stderr.isTTY) stderr.write(`\r\x1b[K${printable(text).slice(0, stderr.columns - 1)}`)
  else if (text !== '') stderr.write(`${printable(text)}\n`)
}

function interruptible(): AbortSignal {
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (interrupted.signal.aborted) process.exit(exitCodes[signal])
      process.exitCode = exitCodes[signal]
      interrupted.abort(new Error('Interrupted; nothing was changed.'))
    })
  }
  return interrupted.signal
}

async function read(): Promise<string> {
  let text = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk
    if (text.length > inputMaxLength) break
  }
  return text
}

async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return await lines.question(question)
  } finally {
    lines.close()
  }
}

// What a person can mend is said in a line; anything else is a bug and shows where.
function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const isExpected =
    error instanceof SettingsError ||
    error instanceof DataDirectoryError ||
    error instanceof Problem
  const isFromSystem = 'code' in error || error.constructor === Error
  return isExpected || isFromSystem ? error.message : (error.stack ?? error.message)
}
