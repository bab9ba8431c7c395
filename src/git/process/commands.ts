import { browseCommands } from './browse-commands.ts'
import { fileCommands } from './file-commands.ts'
import { harmlessFaults } from './git-config.ts'
import { historyCommands } from './history-commands.ts'

/** Every git command that svc runs. Callers pass values only, never options. */
export const gitCommands = {
  ...browseCommands,
  ...fileCommands,
  ...historyCommands,
  version: () => ['version'],
  init: (directory: string, branch = 'main') => [
    'init',
    '--quiet',
    '--bare',
    '--template=',
    `--initial-branch=${branch}`,
    '--object-format=sha1',
    '--end-of-options',
    directory,
  ],
  advertiseFetch: (directory: string) => [
    'upload-pack',
    '--strict',
    '--http-backend-info-refs',
    '--end-of-options',
    directory,
  ],
  advertisePush: (directory: string) => [
    'receive-pack',
    '--http-backend-info-refs',
    '--end-of-options',
    directory,
  ],
  fetch: (directory: string) => [
    'upload-pack',
    '--strict',
    '--stateless-rpc',
    '--end-of-options',
    directory,
  ],
  fetchSession: (directory: string) => ['upload-pack', '--strict', '--end-of-options', directory],
  archive: (directory: string) => ['upload-archive', directory],
  // Read-only: --no-dangling skips unreferenced objects.
  fsck: (directory: string) => [
    `--git-dir=${directory}`,
    'fsck',
    '--full',
    '--strict',
    '--no-dangling',
    '--no-progress',
  ],
  push: (directory: string) => ['receive-pack', '--stateless-rpc', '--end-of-options', directory],
  listHead: (address: string) => ['ls-remote', '--symref', '--end-of-options', address, 'HEAD'],
  mirror: (directory: string, address: string) => [
    `--git-dir=${directory}`,
    'fetch',
    '--progress',
    '--no-tags',
    '--no-write-fetch-head',
    '--no-auto-maintenance',
    '--no-recurse-submodules',
    '--no-show-forced-updates',
    '--end-of-options',
    address,
    '+refs/*:refs/*',
    '^refs/replace/*',
    '^refs/svc/*',
  ],
  packReachable: (directory: string) => [
    `--git-dir=${directory}`,
    'pack-objects',
    '--revs',
    '--stdout',
    '--delta-base-offset',
    '--progress',
  ],
  listReachable: (directory: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--objects',
    '--stdin',
  ],
  // Strict: fails when an object that is reachable from the pack is missing.
  takePack: (directory: string, maxBytes: string) => [
    `--git-dir=${directory}`,
    'index-pack',
    '--stdin',
    '-v',
    strictly,
    `--max-input-size=${maxBytes}`,
  ],
  // As receive-pack does, for a pack so small that threads would cost more than they save. The caller syncs the files.
  takeSmallPack: (directory: string) => [
    '-c',
    'core.fsync=none',
    `--git-dir=${directory}`,
    'index-pack',
    '--stdin',
    '--fix-thin',
    '--threads=1',
    strictly,
  ],
  // Reads `info` and `contents` commands from standard input, and performs them at the next `flush`.
  readObjects: (directory: string) => [
    `--git-dir=${directory}`,
    'cat-file',
    '--batch-command',
    '--buffer',
  ],
  // The objects that ids on standard input reach, except those in some packs.
  packBetween: (directory: string, ...packs: string[]) => [
    `--git-dir=${directory}`,
    'pack-objects',
    '--revs',
    '--stdout',
    '--delta-base-offset',
    '--quiet',
    ...packs.map((name) => `--keep-pack=${name}.pack`),
  ],
  // Writes a pack, and prints the end of its name.
  writePack: (directory: string) => [
    `--git-dir=${directory}`,
    'pack-objects',
    '--revs',
    '--delta-base-offset',
    '--quiet',
    '--end-of-options',
    `${directory}/objects/pack/pack`,
  ],
  countReachable: (directory: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--count',
    '--objects',
    '--use-bitmap-index',
    '--stdin',
  ],
  // Standard input has one commit, marked as shallow.
  packCommit: (directory: string) => [
    `--git-dir=${directory}`,
    'pack-objects',
    '--revs',
    '--shallow',
    '--stdout',
    '--delta-base-offset',
    '--quiet',
  ],
  // Paths that differ between two commits, recursively and without rename detection.
  listChanges: (directory: string, before: string, after: string) => [
    `--git-dir=${directory}`,
    'diff-tree',
    '-r',
    '-z',
    '--name-only',
    '--no-renames',
    '--no-ext-diff',
    '--end-of-options',
    before,
    after,
  ],
  // Newest first, each with its files. A `^` before an id excludes that commit and its ancestors.
  logWithFiles: (directory: string, maxCount: string, ...revisions: string[]) => [
    ...logOf(directory),
    ...filesOfCommits,
    `--max-count=${maxCount}`,
    '--end-of-options',
    ...revisions,
    '--',
  ],
  // One commit with its files, and the branches that point to it.
  logTip: (directory: string, tip: string) => [
    ...logOf(directory, '%D'),
    ...filesOfCommits,
    '--decorate=full',
    '--decorate-refs=refs/heads/',
    '--max-count=1',
    '--end-of-options',
    tip,
    '--',
  ],
  // Like logWithFiles, but without files and after skipping some commits.
  logAlone: (directory: string, maxCount: string, skip: string, ...revisions: string[]) => [
    ...logOf(directory),
    `--max-count=${maxCount}`,
    `--skip=${skip}`,
    '--no-patch',
    '--end-of-options',
    ...revisions,
    '--',
  ],
  // HEAD of a working tree, ignoring untracked files.
  describeHead: (directory: string, tree: string) => [
    `--git-dir=${directory}`,
    `--work-tree=${tree}`,
    'status',
    '--porcelain=v2',
    '--branch',
    '--untracked-files=no',
    '--ignore-submodules=all',
    '-z',
  ],
  // All files of a working tree except ignored ones.
  listFiles: (directory: string, tree: string) => [
    `--git-dir=${directory}`,
    `--work-tree=${tree}`,
    'ls-files',
    '-z',
    '--cached',
    '--others',
    '--exclude-standard',
  ],
  // Merges two commits; exits with 1 when they conflict. Prints the tree, the conflicted files and messages.
  mergeTrees: (directory: string, ours: string, theirs: string) => [
    `--git-dir=${directory}`,
    'merge-tree',
    '--write-tree',
    '-z',
    '--end-of-options',
    ours,
    theirs,
  ],
  // The commits that `git rebase` looks at, oldest first, after `=` if one in `onto` makes the same change, else after `+`.
  listPicks: (directory: string, maxCount: string, onto: string, tip: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--reverse',
    '--topo-order',
    '--right-only',
    '--cherry-mark',
    '--max-parents=1',
    `--max-count=${maxCount}`,
    '--end-of-options',
    `${onto}...${tip}`,
  ],
  // The id, type and size of every object in the object directories.
  listObjects: (directory: string) => [
    `--git-dir=${directory}`,
    'cat-file',
    '--batch-all-objects',
    '--unordered',
    '--batch-check=%(objectname) %(objecttype) %(objectsize)',
  ],
  // The objects whose ids are on standard input.
  printObjects: (directory: string) => [
    `--git-dir=${directory}`,
    'cat-file',
    '--batch',
    '--buffer',
  ],
  // The commits that standard input reaches and no ref does, each after its descendants, with the id by which it was
  // found, and the files that differ from its parents.
  logNewFiles: (directory: string) => [
    `--git-dir=${directory}`,
    'log',
    '-z',
    '--stdin',
    '--topo-order',
    '--format=commit %H %S',
    '--raw',
    '--root',
    '--no-abbrev',
    '--no-renames',
    '--diff-merges=combined',
    '--no-ext-diff',
    '--no-relative',
    '--no-color',
    '--no-mailmap',
    '--no-show-signature',
    '--ignore-submodules=none',
    '--not',
    '--all',
  ],
  setHead: (directory: string, ref: string) => [
    `--git-dir=${directory}`,
    'symbolic-ref',
    '--end-of-options',
    'HEAD',
    ref,
  ],
  updateRefs: (directory: string) => [`--git-dir=${directory}`, 'update-ref', '--stdin'],
  // Reads a configuration file from standard input.
  listConfig: () => ['config', '--file=-', '--no-includes', '--null', '--list'],
  packRefs: (directory: string) => [`--git-dir=${directory}`, 'pack-refs', '--all', '--prune'],
  extendGraph: (directory: string) => [...graphOf(directory), '--split'],
  // Drops unreachable commits from the graph, so that they can be pruned.
  rewriteGraph: (directory: string) => [...graphOf(directory), '--split=replace'],
  // Merges packs until each has at least twice the objects of the next smaller one, so most repacks are small.
  repack: (directory: string) => [
    `--git-dir=${directory}`,
    'repack',
    '--quiet',
    '--geometric=2',
    '--write-midx',
    '--write-bitmap-index',
    '-d',
    '-n',
  ],
  // Merges all packs. Unreachable objects go into a cruft pack, or to `expired` when they are older than `expireBefore`.
  repackAll: (directory: string, expireBefore: string, expired: string) => [
    `--git-dir=${directory}`,
    'repack',
    '--quiet',
    '-a',
    '--cruft',
    `--cruft-expiration=${expireBefore}`,
    `--expire-to=${expired}`,
    '--write-midx',
    '--write-bitmap-index',
    '-d',
    '-n',
  ],
  // Fails when an object is missing that is reachable from the ids on standard input, and not from a ref.
  checkNew: (directory: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--objects',
    '--quiet',
    '--stdin',
    '--not',
    '--all',
  ],
  // Fails when an object is missing that is reachable from the ids on standard input, and not from those after `^`.
  checkSince: (directory: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--objects',
    '--quiet',
    '--stdin',
  ],
  // Writes one index of all packs with a bitmap.
  indexPacks: (directory: string) => [
    `--git-dir=${directory}`,
    'multi-pack-index',
    'write',
    '--bitmap',
    '--no-progress',
  ],
  // Fails when an object reachable from a ref is missing, except below the commits that standard input excludes.
  checkRefs: (directory: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--objects',
    '--quiet',
    '--all',
    '--stdin',
  ],
} as const satisfies Record<string, (...values: string[]) => string[]>

const strictly = `--strict=${harmlessFaults.map((fault) => `${fault}=ignore`).join()}`

// For merges, the difference to the first parent.
const filesOfCommits = [
  '--root',
  '--name-status',
  '--no-renames',
  '--diff-merges=first-parent',
  '--no-ext-diff',
  '--no-relative',
  '--ignore-submodules=none',
]

/**
 * Fields of each commit: id, tree, parents, author and committer with their times in seconds. For a tip the names of its
 * branches follow; the message comes last.
 */
const loggedFields = '%H%x00%T%x00%P%x00%an%x00%ae%x00%at%x00%cn%x00%ce%x00%ct'

function logOf(directory: string, names = ''): string[] {
  return [
    `--git-dir=${directory}`,
    'log',
    '-z',
    '--encoding=UTF-8',
    '--no-color',
    '--no-mailmap',
    '--no-show-signature',
    `--format=${loggedFields}%x00${names}%x00%B`,
  ]
}

/**
 * Bloom filters of the paths that commits change, for the history of a path. Each takes some 0.4 ms, and the oldest
 * commits get them first: with more commits than this, the newest ones wait for the next rewrite of the graph.
 */
const maxNewFilters = 250_000

function graphOf(directory: string): string[] {
  return [
    `--git-dir=${directory}`,
    'commit-graph',
    'write',
    '--reachable',
    '--no-progress',
    '--changed-paths',
    `--max-new-filters=${maxNewFilters}`,
  ]
}
