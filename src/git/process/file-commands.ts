/** The rows of the table of commands that read the files of a commit. */
export const fileCommands = {
  // Which commit each line of a file is from, line by line within a range such as `1,100`.
  blame: (directory: string, range: string, commit: string, path: string) => [
    `--git-dir=${directory}`,
    'blame',
    '--incremental',
    `-L${range}`,
    requireId(commit),
    '--',
    path,
  ],
  // Lines that contain a text, in the files of a commit that pathspecs name. Never those of submodules.
  search: (directory: string, text: string, commit: string, ...pathspecs: string[]) => [
    ...grepOf(directory),
    `-e${text}`,
    requireId(commit),
    '--',
    ...pathspecs,
  ],
  searchIgnoringCase: (directory: string, text: string, commit: string, ...pathspecs: string[]) => [
    ...grepOf(directory),
    '--ignore-case',
    `-e${text}`,
    requireId(commit),
    '--',
    ...pathspecs,
  ],
  // All files of a commit below a path, with their sizes.
  listSizes: (directory: string, commit: string, path: string) => [
    `--git-dir=${directory}`,
    '--literal-pathspecs',
    'ls-tree',
    '-r',
    '-z',
    '--long',
    '--full-tree',
    requireId(commit),
    '--',
    path,
  ],
  archiveCommit: (
    directory: string,
    format: string,
    prefix: string,
    commit: string,
    ...paths: string[]
  ) => [
    `--git-dir=${directory}`,
    '--literal-pathspecs',
    'archive',
    `--format=${format}`,
    `--prefix=${prefix}`,
    requireId(commit),
    '--',
    ...paths,
  ],
} as const satisfies Record<string, (...values: string[]) => string[]>

/** For commands without `--end-of-options`. */
function requireId(id: string): string {
  if (!/^[0-9a-f]{40}$/.test(id)) throw new TypeError('Not the id of an object')
  return id
}

/** How many matches of a file are shown; git prints one more. */
export const matchesPerFile = 100

function grepOf(directory: string): string[] {
  return [
    `--git-dir=${directory}`,
    'grep',
    '--null',
    '--line-number',
    '--column',
    '--fixed-strings',
    '-I',
    '--no-textconv',
    '--no-color',
    '--full-name',
    '--no-recurse-submodules',
    '--threads=2',
    `--max-count=${matchesPerFile + 1}`,
  ]
}
