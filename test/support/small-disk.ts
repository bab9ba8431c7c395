import { execFile } from 'node:child_process'
import { appendFile, statfs, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { temporaryFolder } from './git.ts'
import { startService } from './service.ts'

const execute = promisify(execFile)

/** For a test's `skip`: only root may mount a file system, and not everywhere. */
export async function withoutMounts(): Promise<string | false> {
  try {
    await using _disk = await smallDisk('1m')
    return false
  } catch {
    return 'needs the right to mount a tmpfs'
  }
}

/** A disk of a size as tmpfs(5) has it, to be filled up. */
export async function smallDisk(size: string) {
  const folder = await temporaryFolder()
  try {
    await execute('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=0700`, 'tmpfs', folder.path])
  } catch (error) {
    await folder[Symbol.asyncDispose]()
    throw error
  }
  const filler = join(folder.path, 'filler')
  return {
    path: folder.path,

    /** Fills the disk but for some bytes; again, when there are more. */
    async fill(free: number): Promise<void> {
      const { bavail, bsize } = await statfs(folder.path)
      await appendFile(filler, Buffer.alloc(Math.max(0, bavail * bsize - free))).catch((error) => {
        // Another process has used the rest meanwhile.
        if (error.code !== 'ENOSPC') throw error
      })
    },

    /** Gives back what was filled. */
    empty: () => unlink(filler),

    async [Symbol.asyncDispose]() {
      await execute('umount', ['--lazy', folder.path])
      await folder[Symbol.asyncDispose]()
    },
  }
}

/** A server with its data on a disk of 96 MiB, of which 16 MiB are to stay free. */
export async function startOnSmallDisk() {
  await using starting = new AsyncDisposableStack()
  const disk = starting.use(await smallDisk('96m'))
  const dataDir = join(disk.path, 'data')
  const env = { SVC_FREE_SPACE_MIN: '16MiB' }
  const service = starting.use(await startService({ dataDir, env }))
  const running = starting.move()
  return { disk, service, [Symbol.asyncDispose]: () => running.disposeAsync() }
}
