/** The git commands that read objects and refs for requests and the server: a part of `gitCommands`. */
export const browseCommands = {
  // The numbers of commits that only the first and only the second of `<id>...<id>` reaches.
  countAheadBehind: (directory: string, range: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--left-right',
    '--count',
    '--end-of-options',
    range,
  ],
  // The refs below a prefix with their ids, sorted by name; if objects are given, only those that lead to one of them.
  listRefs: (directory: string, prefix: string, ...pointsAt: string[]) => [
    `--git-dir=${directory}`,
    'for-each-ref',
    '--format=%(objectname) %(refname)',
    ...pointsAt.map((id) => `--points-at=${id}`),
    '--end-of-options',
    prefix,
  ],
  // Each commit that is reachable from standard input after those that reach it, with its parents and its tree.
  walkTrees: (directory: string) => [...walkOf(directory), '--end-of-options', '--'],
  // The same for commits that differ in a path from a parent, and merges; parents are the nearest of these.
  walkTreesOfPath: (directory: string, path: string) => [
    ...walkOf(directory),
    '--full-history',
    '--end-of-options',
    '--',
    path,
  ],
  printBlob: (directory: string, id: string) => [
    `--git-dir=${directory}`,
    'cat-file',
    '--end-of-options',
    'blob',
    id,
  ],
  // The id of each object named on standard input, or `missing`.
  findObjects: (directory: string) => [
    `--git-dir=${directory}`,
    'cat-file',
    '--batch-check=%(objectname)',
  ],
} as const satisfies Record<string, (...values: string[]) => string[]>

function walkOf(directory: string): string[] {
  return [
    '--literal-pathspecs',
    `--git-dir=${directory}`,
    'rev-list',
    '--date-order',
    '--parents',
    '--format=%T',
    '--stdin',
  ]
}
