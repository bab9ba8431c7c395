import { chmod, lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { holdLock } from '#base/lock-file.ts'

const ourNames = new Set(['runner.lock', 'workspaces', 'runs', 'lost+found'])

/** The locked directory of a runner. */
export type RunnerFolder = AsyncDisposable & {
  /** The directory for the sandbox. */
  workspaces: string
  /** Creates a directory for one run; disposing it removes it. */
  forRun: () => Promise<AsyncDisposable & { path: string }>
}

/**
 * Locks a directory for one runner, and removes what an earlier one has left of its runs; the sandbox cleans up the
 * workspaces. Throws a RunnerError when another runner uses it.
 */
export async function acquireRunnerFolder(path: string): Promise<RunnerFolder> {
  const [workspaces, runs] = [join(path, 'workspaces'), join(path, 'runs')]
  await mkdir(path, { recursive: true, mode: 0o700 })
  await assertOurs(path)
  await chmod(path, 0o700)
  const lock = await holdLock(join(path, 'runner.lock'))
  if (!lock) {
    throw new RunnerError(`Another runner uses ${path}; choose another directory with --folder.`)
  }
  await rm(runs, { recursive: true, force: true })
  for (const folder of [workspaces, runs]) await mkdir(folder, { recursive: true, mode: 0o700 })
  let count = 0
  return {
    workspaces,

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

// Its contents are removed and its mode is changed, which must not happen to a directory given by mistake.
async function assertOurs(path: string): Promise<void> {
  const { uid } = await lstat(path)
  if (uid !== process.getuid?.()) {
    throw new RunnerError(
      `${path} belongs to another user; choose another directory with --folder.`,
    )
  }
  const names = await readdir(path)
  if (names.every((name) => ourNames.has(name))) return
  throw new RunnerError(
    `${path} is neither empty nor the directory of a runner; choose another one with --folder.`,
  )
}

/** Stops a runner. The message is one line that says what to do. */
export class RunnerError extends Error {
  override readonly name = 'RunnerError'
}
