import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isHeld } from '../base/lock-file.ts'
import type { Log } from '../base/log.ts'
import { within } from '../base/timeouts.ts'
import type { Settings } from '../config/settings.ts'
import { inspectDatabase } from '../database/inspection.ts'
import type { Db } from '../database/schema.ts'
import { gitCommands } from '../git/process/commands.ts'
import { createGit } from '../git/process/git-process.ts'
import { readAccepted } from './accepted-settings.ts'
import { messageOf, SkipError } from './finding.ts'

export type DoctorContext = ReturnType<typeof createDoctorContext>

export type DoctorOptions = {
  environment: Record<string, string | undefined>
  /** Where programs are looked for. */
  path: string
  version: string
  log: Log
  /** The name of the one repository whose objects are to be checked; none of them when false. */
  objectsOf: string | boolean
  /** Told of what takes long, as it goes on; undefined when it is over. */
  onProgress: (text: string | undefined) => void
}

const lookAgainMs = 300
const gitTimeoutMs = 10_000

/** What the checks look at. What cannot be looked at is thrown as a Skip: another check tells why. */
export function createDoctorContext(options: DoctorOptions) {
  const { environment, path, version, log, objectsOf, onProgress } = options
  const accepted = readAccepted(environment)
  // A mark of its own: a server that starts ends what carries that of its data directory.
  const git = createGit({
    ...accepted.settings,
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
      throw new SkipError('There is no data directory that can be read.')
    })
    return folder
  }

  return {
    environment,
    path,
    version,
    git,
    objectsOf,
    onProgress,
    /** What is wrong with settings, a line for each. */
    settingFaults: accepted.faults,
    setting,

    /** What `git version` prints; rejects when git does not run. */
    gitVersion: () => gitVersion,

    /** Throws a Skip when git does not run. */
    async requireGit(): Promise<void> {
      await gitVersion.catch(() => {
        throw new SkipError('git does not run.')
      })
    },

    /** The path of the data directory, which is there and can be listed. */
    dataDir,

    /** Whether a server runs on the data directory, at this moment. */
    isServed(): boolean {
      try {
        return isHeld(join(setting('dataDir'), 'server.lock'))
      } catch (error) {
        throw new SkipError(`Whether a server runs cannot be told: ${messageOf(error)}`)
      }
    },

    /** Reads the database, of whatever version it is; rejects with what is in the way. */
    inspect<T>(read: (db: Db) => Promise<T>): Promise<T> {
      const url = setting('databaseUrl')?.reveal()
      return inspectDatabase({ dataDir: setting('dataDir'), url, log }, read)
    },

    /** Reads the database for what is kept in it. */
    async read<T>(read: (db: Db) => Promise<T>): Promise<T> {
      if (!setting('databaseUrl')) await dataDir()
      return twice(() => this.inspect(read)).catch((error) => {
        if (error instanceof SkipError) throw error
        throw new SkipError(`The database cannot be read: ${messageOf(error)}`)
      })
    },
  }
}

/** Does again what failed, after a moment: a server that starts or stops meanwhile makes no fault. */
export async function twice<T>(attempt: () => Promise<T>): Promise<T> {
  return attempt().catch(async () => {
    await sleep(lookAgainMs)
    return attempt()
  })
}
