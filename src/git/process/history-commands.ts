/** The rows of the table of commands that read history and compare commits. */
export const historyCommands = {
  // The files that differ between two trees, then their patches, limited to paths.
  diffTrees: (directory: string, before: string, after: string, ...paths: string[]) => [
    ...diffOf(directory),
    '--end-of-options',
    before,
    after,
    '--',
    ...paths,
  ],
  // The same for each line of standard input, without a limit: a commit and the one that it is compared with, or the old
  // and the new tree. Before it come the id of the commit and a NUL, or the line.
  diffEach: (directory: string) => [...diffOf(directory), '--always', '--stdin'],
  // The ids of commits, newest first, after skipping some. An empty author or time does not limit them; an author is a
  // fixed string, without regard to case. A time is in the form of a commit: `1700000000 +0000`.
  listHistory: (
    directory: string,
    maxCount: string,
    skip: string,
    author: string,
    since: string,
    until: string,
    tip: string,
    ...paths: string[]
  ) => [
    `--git-dir=${directory}`,
    '--literal-pathspecs',
    'rev-list',
    `--max-count=${maxCount}`,
    `--skip=${skip}`,
    ...(author === '' ? [] : ['--fixed-strings', '--regexp-ignore-case', `--author=${author}`]),
    ...(since === '' ? [] : [`--since=@${since}`]),
    ...(until === '' ? [] : [`--until=@${until}`]),
    '--end-of-options',
    tip,
    '--',
    ...paths,
  ],
  // The commits that are in one of two histories only, newest first: `<` before the ids of the left one.
  listSides: (directory: string, left: string, right: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--left-right',
    '--end-of-options',
    `${left}...${right}`,
    '--',
  ],
  // Exits with 1 when two commits have no common ancestor.
  mergeBase: (directory: string, one: string, other: string) => [
    `--git-dir=${directory}`,
    'merge-base',
    '--end-of-options',
    one,
    other,
  ],
  listCommits: (directory: string, maxCount: string, since: string, until: string) => [
    `--git-dir=${directory}`,
    'log',
    '-z',
    `--max-count=${maxCount}`,
    '--format=%H%n%an%n%s',
    '--end-of-options',
    `${since}..${until}`,
  ],
  // Exits with 0 when `before` is an ancestor of `after`, and with 1 when it is not.
  isAncestor: (directory: string, before: string, after: string) => [
    `--git-dir=${directory}`,
    'merge-base',
    '--is-ancestor',
    '--end-of-options',
    before,
    after,
  ],
  // All commits that visible refs lead to, newest first.
  listVisibleCommits: (directory: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--exclude=refs/svc/*',
    '--all',
  ],
  // The newest commits reachable from standard input, each after its descendants, with their parents.
  listParents: (directory: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--parents',
    '--date-order',
    '--max-count=50000',
    '--stdin',
  ],
} as const satisfies Record<string, (...values: string[]) => string[]>

/** The most files that were deleted, or added, among which renames with changes are searched. */
export const renameLimit = 500

function diffOf(directory: string): string[] {
  return [
    `--git-dir=${directory}`,
    '--literal-pathspecs',
    'diff-tree',
    '-r',
    '-z',
    '--raw',
    '--find-renames',
    `-l${renameLimit}`,
    '--full-index',
    '--no-abbrev',
    '--no-relative',
    '--no-ext-diff',
    '--ignore-submodules=none',
    '--patch',
    '--unified=3',
    '--src-prefix=a/',
    '--dst-prefix=b/',
    '--submodule=short',
    '--no-color',
    '--no-textconv',
  ]
}
