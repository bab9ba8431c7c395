import { posix } from 'node:path'
import { Readable } from 'node:stream'
import { ArchiveError, type Archiving, archiveVariables, endedWithNul } from './archives.ts'
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
 * themselves, if there are such. As on GitHub, a link to a folder that contains it is not followed; `leadingOut` has
 * the paths and links that lead to places other than those of `patterns`, which are not followed either.
 */
export async function findFiles({
  patterns,
  followLinks,
  ...finding
}: Finding): Promise<{ found: FoundFile[]; leadingOut: string[] }> {
  const { workspace, home, temp } = finding.running.workspace.inside
  // The last name of a path may be a link, which is then kept as one.
  const resolved = followLinks ? patterns.starts : patterns.starts.map(posix.dirname)
  const reals = await realPaths(finding, [workspace, home, temp, ...resolved])
  const roots = reals.splice(0, 3)
  const isWithin = (path: string) => roots.some((root) => `${path}/`.startsWith(`${root}/`))
  const starts = patterns.starts.filter((path, index) =>
    isWithin(posix.join(reals[index] ?? '', followLinks ? '' : posix.basename(path))),
  )
  const leadingOut = patterns.starts.filter((path) => !starts.includes(path))
  if (starts.length === 0) return { found: [], leadingOut }
  const depth = patterns.isLiteral && !followLinks ? ['-maxdepth', '0'] : []
  const lines = await listPaths(finding, {
    script: findScript,
    args: followLinks
      ? ['-L', ...starts, ...linksLeadingOut(roots), '-o', ...linked, '-o', ...others]
      : ['-P', ...starts, ...depth, ...others],
  })
  const paths = lines.map((line) => line.slice(2))
  const unreadable = paths.find((path) => path.includes('\u{fffd}'))
  if (unreadable !== undefined) throw new ArchiveError(`The name ${unreadable} is not UTF-8.`)
  // Patterns of absolute paths are relative to the root.
  const match = async (chosen: readonly string[], rules: string[]) => {
    const names = chosen.map((path) => path.slice(1))
    return await finding.running.files.match(names, rules)
  }
  const matches = (await match(paths, patterns.rules)).map((index) => ({
    path: paths[index] ?? '',
    isFile: lines[index]?.charAt(1) === 'f',
    isLink: lines[index]?.startsWith('l') === true,
  }))
  const links = matches.filter(({ isFile, isLink }) => isFile && isLink).map(({ path }) => path)
  const targets = await realPaths(finding, links)
  const linksOut = links.filter((_, index) => !isWithin(targets[index] ?? ''))
  const foldersOut = paths.filter((_, index) => lines[index]?.startsWith('o'))
  const excluding = patterns.rules.filter((rule) => rule.startsWith('!'))
  const named = await match(foldersOut, ['/**', ...excluding])
  leadingOut.push(...linksOut, ...named.map((index) => foldersOut[index] ?? ''))
  const isOut = new Set(leadingOut)
  return { found: matches.filter(({ path }) => !isOut.has(path)), leadingOut }
}

// Each path is printed after two letters: what it is, and its type in the terms of find.
const linked = ['-xtype', 'l', '-printf', 'l%y%p\\0']
const others = ['-printf', '-%y%p\\0']

/** Finds links to folders elsewhere, and keeps `find -L` from searching them. */
function linksLeadingOut(roots: readonly string[]): string[] {
  const isWithin = ['sh', '-c', isWithinScript, 'sh', '{}', ...roots, ';']
  return ['-xtype', 'l', '-type', 'd', '!', '-exec', ...isWithin, '-prune', '-printf', 'o-%p\\0']
}

// A folder that cannot be entered is not searched in any case.
const isWithinScript =
  'cd -P -- "$1" 2>/dev/null || exit 0; case $PWD/ in "$2"/*|"$3"/*|"$4"/*) ;; *) exit 1 ;; esac'

// What cannot be read, and what does not exist, is left out.
const findScript = 'exec find "$@" 2>/dev/null'

/** The paths without any link in them, also of what does not exist. */
async function realPaths(finding: Archiving, paths: readonly string[]): Promise<string[]> {
  if (paths.length === 0) return []
  return await listPaths(finding, {
    script: 'exec xargs -0 realpath -zm --',
    args: [],
    stdin: Readable.from(endedWithNul(paths), { objectMode: false }),
  })
}

type Listing = { script: string; args: readonly string[]; stdin?: Readable }

async function listPaths(
  { running, timeoutMs, signal }: Archiving,
  { script, args, ...input }: Listing,
): Promise<string[]> {
  const { workspace } = running
  const tooMany = new AbortController()
  const chunks: Buffer[] = []
  let bytes = 0
  const end = await workspace.run({
    ...input,
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
