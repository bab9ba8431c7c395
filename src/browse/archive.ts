import { PassThrough, type Readable } from 'node:stream'
import { watchDrain } from '#base/chunks.ts'
import { watchStall } from '#base/timeouts.ts'
import { gitCommands } from '#git/process/commands.ts'
import { toWord } from '#git/process/preforked-process.ts'
import type { RawPath } from './api-path.ts'
import type { GitTasks, Requester } from './git-tasks.ts'

type ArchiveRequest = { commit: string; path: RawPath; format: ArchiveFormat; prefix: string }

export type ArchiveFormat = keyof typeof archiveTypes

/** Content types by the format, as git-archive(1) calls it. */
export const archiveTypes = {
  'tar.gz': 'application/gzip',
  zip: 'application/zip',
  tar: 'application/x-tar',
} as const

// Git streams large files, so only trees and the files that `export-subst` expands take memory.
const memoryMaxBytes = 512 * 1024 * 1024
const nameMaxLength = 100

/**
 * Archives the files of a commit. Resolves when the archive begins, so that a failure before that has a response of its
 * own. Git ends when the stream is destroyed, or the client reads nothing for `stallMs`.
 */
export async function openArchive(
  tasks: GitTasks,
  requester: Requester,
  { commit, path, format, prefix, stallMs }: ArchiveRequest & { stallMs: number },
): Promise<Readable> {
  const stream = new PassThrough()
  const closed = new AbortController()
  stream.once('close', () => closed.abort())
  // An error before the stream is read has no other listener.
  stream.on('error', () => {})
  const begun = Promise.withResolvers<void>()

  async function run(): Promise<void> {
    const outer = AbortSignal.any([requester.signal, closed.signal])
    using stall = watchStall(stallMs, () => stream.writableNeedDrain, outer)
    using draining = watchDrain(stream, stall.signal)
    const paths = path === '' ? [] : [toWord(path)]
    await tasks.run(
      { ...requester, signal: stall.signal },
      {
        command: gitCommands.archiveCommit(
          requester.repository.path,
          format,
          prefix,
          commit,
          ...paths,
        ),
        memoryMaxBytes,
        isStream: true,
        async read(output) {
          for await (const chunk of output) {
            begun.resolve()
            stall.progress()
            if (!stream.write(chunk)) await draining.wait()
            stall.progress()
          }
        },
      },
    )
  }

  run().then(
    () => {
      begun.resolve()
      stream.end()
    },
    (error) => {
      begun.reject(error)
      stream.destroy(error)
    },
  )
  await begun.promise
  return stream
}

/** The name of an archive, and of the folder in it: letters, digits, `.`, `_` and `-`. */
export function archiveNameOf(repository: string, revision: string): string {
  const name = `${repository}-${revision}`.replace(/[^\p{L}\p{N}._-]+/gu, '-')
  return [...name].slice(0, nameMaxLength).join('')
}
