import { ArchiveError, type Archiving, archiveVariables } from './archives.ts'
import type { PathPatterns } from './path-patterns.ts'

const maxPaths = 500_000
const maxBytes = 64 * 1024 ** 2

export type FoundFile = { path: string; isFile: boolean }

type Finding = Archiving & {
  patterns: PathPatterns
  /** Whether links count as what they lead to. */
  followLinks: boolean
}

/**
 * Finds the files and folders that match, in the sandbox with the rights of a step. Without wildcards, only the paths
 * themselves, if there are such.
 */
export async function findFiles({
  patterns,
  followLinks,
  ...finding
}: Finding): Promise<FoundFile[]> {
  const { starts, isLiteral } = patterns
  if (starts.length === 0) return []
  const depth = isLiteral && !followLinks ? ['-maxdepth', '0'] : []
  const lines = await listPaths(finding, [
    followLinks ? '-L' : '-P',
    ...starts,
    ...depth,
    '-printf',
    '%y%p\\0',
  ])
  const paths = lines.map((line) => line.slice(1))
  const unreadable = paths.find((path) => path.includes('\u{fffd}'))
  if (unreadable !== undefined) throw new ArchiveError(`The name ${unreadable} is not UTF-8.`)
  // Patterns of absolute paths are relative to the root.
  const names = paths.map((path) => path.slice(1))
  const matches = await finding.running.files.match(names, patterns.rules)
  return matches.map((index) => ({
    path: paths[index] ?? '',
    isFile: lines[index]?.startsWith('f') === true,
  }))
}

// What cannot be read, and what does not exist, is left out.
const script = 'exec find "$@" 2>/dev/null'

async function listPaths(
  { running, timeoutMs, signal }: Archiving,
  args: readonly string[],
): Promise<string[]> {
  const { workspace } = running
  const tooMany = new AbortController()
  const chunks: Buffer[] = []
  let bytes = 0
  const end = await workspace.run({
    command: ['sh', '-c', script, 'sh', ...args],
    env: archiveVariables(running),
    cwd: workspace.inside.workspace,
    timeoutMs,
    signal: AbortSignal.any([signal, tooMany.signal]),
    onOutput(chunk) {
      bytes += chunk.length
      if (bytes > maxBytes) tooMany.abort()
      else chunks.push(chunk)
    },
  })
  signal.throwIfAborted()
  const lines = Buffer.concat(chunks).toString('utf8').split('\0').slice(0, -1)
  if (tooMany.signal.aborted || lines.length > maxPaths) {
    throw new ArchiveError(
      `The paths contain more than ${maxPaths} files, or names longer than ${maxBytes / 1024 ** 2} MiB together.`,
    )
  }
  if (end.reason !== 'exited')
    throw new ArchiveError(end.detail || 'Finding the files took too long.')
  return lines
}
