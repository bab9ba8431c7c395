import { createTools, openExistingApp } from '../../src/app.ts'
import { BackupError } from '../../src/backup/manifest.ts'
import { createLog } from '../../src/base/log.ts'
import { createProgram } from '../../src/commands/program.ts'
import type { Terminal } from '../../src/commands/terminal.ts'
import { DataDirectoryError } from '../../src/config/data-directory.ts'
import { readSettings } from '../../src/config/settings.ts'
import type { Ran } from './command.ts'

const log = createLog({ level: 'silent', output: process.stderr })

/**
 * Runs a command as `runSvc` does, but in this process: the start of a program costs more than most commands do.
 * Programs of their own, such as `serve` and `doctor`, cannot be run like this.
 */
export async function runInProcess(args: string[], env: Record<string, string> = {}): Promise<Ran> {
  const printed = { out: '', err: '' }
  const terminal: Terminal = {
    out: (text) => {
      printed.out += Buffer.from(text).toString()
    },
    write: async (bytes) => {
      printed.out += Buffer.from(bytes).toString('latin1')
    },
    err: (text) => {
      printed.err += text
    },
    interruption: () => new AbortController().signal,
    read: async () => Buffer.alloc(0),
    ask: undefined,
    askHidden: undefined,
    progress: () => {},
  }
  const path = process.env.PATH ?? ''
  const toOptions = () => ({
    ...{ settings: readSettings(env), log, path },
    version: '0.0.0',
  })
  const program = createProgram({
    ...{ version: '0.0.0', terminal },
    ...{ serve: unsupported, mcp: unsupported, doctor: unsupported },
    ...{ runner: unsupported, run: unsupported },
    client: {
      environment: env,
      folder: process.cwd(),
      launcher: 'svc',
      columns: undefined,
      setExitCode: () => {},
    },
    withTools: (run) => run(createTools(toOptions())),
    async withApp(run) {
      await using app = await openExistingApp(toOptions())
      await run(app)
    },
  })
  try {
    await program.parseAsync(args, { from: 'user' })
    return { code: 0, signal: null, ...printed }
  } catch (error) {
    if (!isExpected(error)) throw error
    return { code: 1, signal: null, ...printed, err: `${printed.err}svc: ${error.message}\n` }
  }
}

async function unsupported(): Promise<void> {
  throw new TypeError('This command needs a process of its own.')
}

// Anything else the program prints with its stack, as a bug.
function isExpected(error: unknown): error is Error {
  const isNamed = error instanceof BackupError || error instanceof DataDirectoryError
  return isNamed || (error instanceof Error && error.constructor === Error)
}
