import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '#base/log.ts'
import { within } from '#base/timeouts.ts'
import { isLocked } from '#config/data-directory.ts'
import type { Setting } from '#config/setting.ts'
import { readSettings, type Settings, SettingsError } from '#config/settings.ts'
import { settings } from '#config/settings-table.ts'
import { unknownVariables } from '#config/unknown-variables.ts'
import { inspectDatabase } from '#database/inspection.ts'
import type { Db } from '#database/schema.ts'
import { gitCommands } from '#git/process/commands.ts'
import { createGit } from '#git/process/git-process.ts'
import { messageOf, SkipError } from './finding.ts'

export type DoctorContext = ReturnType<typeof createDoctorContext>

export type DoctorOptions = {
  environment: Record<string, string | undefined>
  /** The search path for programs, as in PATH. */
  path: string
  version: string
  log: Log
  /** The repositories whose objects are checked: one by its name, all, or none. */
  objectsOf: string | boolean
  /** Whether to check only what a runner needs, on a machine without a server. */
  ofRunner?: boolean
  /** Receives the progress of long checks; undefined when one ends. */
  onProgress: (text: string | undefined) => void
}

const retryDelayMs = 300
const gitTimeoutMs = 10_000

/** Gives checks access to the installation. Throws a SkipError where another check reports the fault. */
export function createDoctorContext(options: DoctorOptions) {
  const { environment, path, version, log, objectsOf, onProgress } = options
  const accepted = readAccepted(environment)
  // Its own owner mark, because a starting server kills the processes with the mark of its data directory.
  const git = createGit({
    settings: accepted.settings,
    owner: `svc doctor ${accepted.settings.dataDir}`,
    path,
  })
  const gitVersion = within(gitTimeoutMs, git.run(gitCommands.version()))
  gitVersion.catch(() => {})

  function setting<K extends keyof Settings>(key: K): Settings[K] {
    const refused = accepted.refused.get(key)
    if (refused !== undefined) throw new SkipError(`${refused} is not accepted.`)
    return accepted.settings[key]
  }

  async function dataDir(): Promise<string> {
    const folder = setting('dataDir')
    await readdir(folder).catch(() => {
      throw new SkipError('The data directory is missing or cannot be read.')
    })
    return folder
  }

  return {
    environment,

    /** Whether workflows run on this machine. */
    hasRunner: () => options.ofRunner === true || setting('runner'),

    path,
    version,
    log,
    git,
    objectsOf,
    onProgress,
    /** Faults of the settings, as one line each. */
    settingFaults: accepted.faults,
    setting,

    /** Returns the output of `git version`; rejects when git does not run. */
    gitVersion: () => gitVersion,

    /** Throws a SkipError when git does not run. */
    async requireGit(): Promise<void> {
      await gitVersion.catch(() => {
        throw new SkipError('git does not run.')
      })
    },

    /** Returns the path of the data directory, which exists and is readable. */
    dataDir,

    /** Whether a server is running on the data directory. */
    isServed(): boolean {
      try {
        return isLocked(setting('dataDir'), 'server')
      } catch (error) {
        throw new SkipError(`It is unknown whether a server is running: ${messageOf(error)}`)
      }
    },

    /** Reads the database, of any schema version. */
    inspect<T>(read: (db: Db) => Promise<T>): Promise<T> {
      const url = setting('databaseUrl')?.reveal()
      return inspectDatabase({ dataDir: setting('dataDir'), url, log }, read)
    },

    /** Reads the database. Throws a SkipError when that fails. */
    async read<T>(read: (db: Db) => Promise<T>): Promise<T> {
      if (!setting('databaseUrl')) await dataDir()
      return twice(() => this.inspect(read)).catch((error) => {
        if (error instanceof SkipError) throw error
        throw new SkipError(`The database cannot be read: ${messageOf(error)}`)
      })
    },
  }
}

/** Retries once after a delay, because a server that starts or stops meanwhile is not a fault. */
export async function twice<T>(attempt: () => Promise<T>): Promise<T> {
  return attempt().catch(async () => {
    await sleep(retryDelayMs)
    return attempt()
  })
}

type Environment = Record<string, string | undefined>

type Accepted = {
  /** With the defaults for settings that are not accepted. */
  settings: Settings
  /** The keys and variables of settings that are not accepted. */
  refused: Map<keyof Settings, string>
  /** One line per setting that is not accepted. */
  faults: string[]
}

const table = Object.entries<Setting<unknown>>(settings)

/** Reads the settings of an environment, with defaults for those that are not accepted. */
function readAccepted(environment: Environment): Accepted {
  try {
    return { settings: readSettings(environment), refused: new Map(), faults: [] }
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    // Each line begins with the variable that it is about.
    const faults = error.message.split('\n')
    const refused = table.filter(([, { variable }]) =>
      faults.some((line) => line.startsWith(`${variable}: `)),
    )
    const names = unknownVariables(environment).map(({ name }) => name)
    const unset = [...refused.map(([, { variable }]) => variable), ...names]
    const cleared = Object.fromEntries(unset.map((name) => [name, undefined]))
    return {
      settings: readSettings({ ...environment, ...cleared }),
      // The table's keys are those of the settings.
      refused: new Map(refused.map(([key, { variable }]) => [key as keyof Settings, variable])),
      faults,
    }
  }
}
