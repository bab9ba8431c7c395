import { Readable, Writable } from 'node:stream'
import type { Command } from 'commander'
import { createTools, openExistingApp } from '#app.ts'
import { createLog } from '#base/log.ts'
import { type DoctorCommandOptions, runDoctor } from '#cli/local/doctor-command.ts'
import { createProgram, toFailure } from '#cli/program.ts'
import { type Terminal, toSafeTerminal } from '#cli/terminal/terminal.ts'
import { readSettings } from '#config/settings.ts'
import { createDoctor } from '#ops/doctor/doctor.ts'
import type { Ran } from './command.ts'
import { launcher } from './service.ts'

const version = '0.0.0'

type Options = {
  /** The current directory of the command. */
  folder?: string
  /** Its standard input. */
  input?: string | Buffer | undefined
  /** The width of the terminal on which it prints; without, it prints into a pipe. */
  columns?: number | undefined
}

/**
 * Runs a command in this process. Its log comes with what it prints on standard error.
 *
 * Programs of their own, such as `serve` and `runner`, cannot be run like this, nor can what a signal does be tested.
 */
export async function runInProcess(
  args: string[],
  env: NodeJS.ProcessEnv = {},
  { folder = process.cwd(), input = '', columns }: Options = {},
): Promise<Ran> {
  const printed = { out: Buffer.alloc(0), err: '' }
  const print = (text: string | Uint8Array) => {
    printed.out = Buffer.concat([printed.out, Buffer.from(text)])
  }
  const terminal = toSafeTerminal({
    out: print,
    write: async (bytes) => print(bytes),
    err: (text) => {
      printed.err += text
    },
    interruption: () => new AbortController().signal,
    read: async () => Buffer.from(input),
    keyboard: () => ({
      size: undefined,
      read: () => Readable.from([Buffer.from(input)]),
      interrupted: new AbortController().signal,
      [Symbol.dispose]() {},
    }),
    ask: undefined,
    askHidden: undefined,
    progress: (text) => {
      if (text !== '') printed.err += `${text}\n`
    },
  })
  let code: number | undefined
  const output = new Writable({
    write(line, _encoding, done) {
      printed.err += line
      done()
    },
  })
  const log = createLog({ level: env.SVC_LOG_LEVEL ?? 'warn', output })
  const path = env.PATH ?? process.env.PATH ?? ''
  const toOptions = () => ({ settings: readSettings(env), log, path, version })
  const program = createProgram({
    ...{ version, terminal },
    ...{ serve: unsupported, mcp: unsupported, runner: unsupported, run: unsupported },
    runnerDoctor: unsupported,
    client: {
      ...{ environment: env, folder, launcher },
      columns,
      setExitCode: (wanted) => {
        code = wanted
      },
    },
    async doctor(options) {
      if (!(await runDoctorWith(options, env, terminal))) code = 1
    },
    withTools: (run) => run(createTools(toOptions())),
    async withApp(run) {
      await using app = await openExistingApp(toOptions())
      await run(app)
    },
  })
  redirect(program, terminal)
  const toRan = (code: number): Ran => ({
    ...{ code, signal: null, err: printed.err },
    out: printed.out.toString(),
  })
  try {
    await program.parseAsync(args, { from: 'user' })
    return toRan(code ?? 0)
  } catch (error) {
    const { text, exitCode, isExpected } = toFailure(error)
    if (!isExpected) throw error
    terminal.err(text)
    return toRan(code ?? exitCode)
  }
}

/** Lets a command and those below it print to a terminal what Commander prints. */
function redirect(command: Command, terminal: Pick<Terminal, 'out' | 'err'>): void {
  command.configureOutput({
    ...{ writeOut: terminal.out, writeErr: terminal.err },
    ...{ getOutHelpWidth: () => 80, getErrHelpWidth: () => 80 },
  })
  for (const one of command.commands) redirect(one, terminal)
}

async function runDoctorWith(
  { repository, fsck, json = false }: DoctorCommandOptions,
  environment: NodeJS.ProcessEnv,
  terminal: Terminal,
): Promise<boolean> {
  const doctor = createDoctor({
    ...{ environment, version },
    log: createLog({ level: 'silent', output: process.stderr }),
    path: environment.PATH ?? process.env.PATH ?? '',
    objectsOf: repository ?? fsck,
    onProgress: () => {},
  })
  const options = { isColored: false, clearProgress: () => {} }
  const isHealthy = await runDoctor({ ...options, doctor, json, terminal })
  doctor.abandon()
  return isHealthy
}

async function unsupported(): Promise<void> {
  throw new TypeError('This command needs a process of its own.')
}
