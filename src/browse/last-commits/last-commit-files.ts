import type { RawPath } from '../api-path.ts'
import type { DiskCache } from '../disk-cache.ts'
import type { LastCommitsByName } from './last-commit-walk.ts'

/** The last commits of all entries of a folder, in some commits that have the same folder. */
type StoredLastCommits = { commits: string[]; byName: LastCommitsByName }

/** Keeps the newest last commits of folders, one file a folder. */
export type LastCommitFiles = {
  load: (repositoryId: string, path: RawPath) => Promise<StoredLastCommits | undefined>
  save: (repositoryId: string, path: RawPath, answers: StoredLastCommits) => Promise<void>
}

export const lastCommitLimits = { fileMaxBytes: 1024 * 1024, maxFilesPerRepository: 64 }

/** Raised when the format changes. */
const version = 2

export function createLastCommitFiles(files: Pick<DiskCache, 'load' | 'save'>): LastCommitFiles {
  const keyOf = (path: RawPath) => `${version} ${path}`
  return {
    async load(repositoryId, path) {
      const content = await files.load(repositoryId, keyOf(path))
      return content && parse(content)
    },
    save: (repositoryId, path, answers) =>
      files.save(repositoryId, keyOf(path), serialize(answers)),
  }
}

type Content = { commits: string[]; ids: string[]; names: string[]; of: number[] }

/** Names are bytes (latin1), which JSON has as characters. */
function serialize({ commits, byName }: StoredLastCommits): Buffer {
  const ids = [...new Set(byName.values())]
  const indexes = new Map(ids.map((id, index) => [id, index]))
  const names = [...byName.keys()]
  const of = [...byName.values()].map((id) => indexes.get(id) ?? 0)
  return Buffer.from(JSON.stringify({ commits, ids, names, of } satisfies Content))
}

function parse(content: Buffer): StoredLastCommits {
  // Its digest shows that `serialize` made it.
  const { commits, ids, names, of } = JSON.parse(content.toString('utf8')) as Content
  return {
    commits,
    byName: new Map(names.map((name, index) => [name, ids[of[index] ?? 0] ?? ''])),
  }
}
