import type { Readable } from 'node:stream'
import { nameWithin } from '#base/repository-name.ts'
import { gitCommands } from '#git/process/commands.ts'
import { toWord } from '#git/process/preforked-process.ts'
import type { RawPath } from '../api-path.ts'
import type { GitTasks, Requester } from '../git-tasks.ts'
import { streamOutput } from './output-stream.ts'

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

/** Archives the files of a commit: see `streamOutput`. */
export async function openArchive(
  tasks: GitTasks,
  requester: Requester,
  { commit, path, format, prefix, stallMs }: ArchiveRequest & { stallMs: number },
): Promise<Readable> {
  const { path: directory } = requester.repository
  const paths = path === '' ? [] : [toWord(path)]
  const command = gitCommands.archiveCommit(directory, format, prefix, commit, ...paths)
  const { stream } = await streamOutput(tasks, requester, { command, memoryMaxBytes, stallMs })
  return stream
}

/** The name of an archive, without the namespace of the repository, and of the folder in it: letters, digits, `.`, `_` and `-`. */
export function archiveNameOf(repository: string, revision: string): string {
  const name = `${nameWithin(repository)}-${revision}`.replace(/[^\p{L}\p{N}._-]+/gu, '-')
  return [...name].slice(0, nameMaxLength).join('')
}
