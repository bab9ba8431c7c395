import { chmod, lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { holdLock } from '../base/lock-file.ts'
import { RunnerError } from './runner-fault.ts'

const ourNames = new Set(['runner.lock', 'rooms', 'runs', 'lost+found'])

/** The folder of a runner, for as long as it is held. */
export type RunnerFolder = AsyncDisposable & {
  /** Where the sandbox makes its rooms. */
  rooms: string
  /** Makes a folder for one run; disposing of it removes it. */
  forRun: () => Promise<AsyncDisposable & { path: string }>
}

/**
 * Takes a folder for a runner alone, and clears away what one before it has left of its runs. Its rooms are
 * the sandbox's to clear. Throws a RunnerFault when another runner has it.
 */
export async function takeFolder(path: string): Promise<RunnerFolder> {
  const [rooms, runs] = [join(path, 'rooms'), join(path, 'runs')]
  await mkdir(path, { recursive: true, mode: 0o700 })
  await assertOurs(path)
  await chmod(path, 0o700)
  const lock = await holdLock(join(path, 'runner.lock'))
  if (!lock) {
    throw new RunnerError(
      `Another runner works in ${path}; give this one another folder with --folder.`,
    )
  }
  await rm(runs, { recursive: true, force: true })
  for (const folder of [rooms, runs]) await mkdir(folder, { recursive: true, mode: 0o700 })
  let count = 0
  return {
    rooms,

    async forRun() {
      const folder = join(runs, String(++count))
      await mkdir(folder, { mode: 0o700 })
      return {
        path: folder,
        [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
      }
    },

    async [Symbol.asyncDispose]() {
      lock[Symbol.dispose]()
    },
  }
}

// It is cleared and closed to others: that must not befall a folder that was named by mistake.
async function assertOurs(path: string): Promise<void> {
  const { uid } = await lstat(path)
  if (uid !== process.getuid?.()) {
    throw new RunnerError(`${path} belongs to another user; name another folder with --folder.`)
  }
  const names = await readdir(path)
  if (names.every((name) => ourNames.has(name))) return
  throw new RunnerError(
    `${path} is not empty and is no folder of a runner; name another one with --folder.`,
  )
}
