import { isObjectId } from '#base/object-id.ts'
import { harmlessFaults } from './git-config.ts'

/** Every git command that svc runs. Callers pass values only, never options. */
export const gitCommands = {
  version: () => ['version'],
  init: (directory: string, format = 'sha1', branch = 'main') => [
    'init',
    '--quiet',
    '--bare',
    '--template=',
    `--initial-branch=${branch}`,
    `--object-format=${format}`,
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
    '^refs/changes/*',
    '^refs/for/*',
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
  // The ids of all blobs of at most 1 KiB that refs reach.
  listReachableSmallBlobs: (directory: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--objects',
    '--no-object-names',
    '--all',
    '--filter=combine:object:type=blob+blob:limit=1k',
    '--filter-provided-objects',
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
  // The paths that the same commits change, each ended by a NUL.
  listNewPaths: (directory: string) => [
    `--git-dir=${directory}`,
    'log',
    '-z',
    '--ignore-missing',
    '--stdin',
    '--format=',
    '--name-only',
    '--root',
    '--no-renames',
    '--diff-merges=combined',
    '--no-ext-diff',
    '--no-relative',
    '--no-color',
    '--no-show-signature',
    '--ignore-submodules=none',
    '--not',
    '--all',
  ],
  // Compares the commits of two ranges by their patches; all of them are paired as far as there are commits on both sides.
  rangeDiff: (
    directory: string,
    base: string,
    tip: string,
    otherBase: string,
    otherTip: string,
  ) => [
    `--git-dir=${directory}`,
    'range-diff',
    '--creation-factor=999',
    '--no-notes',
    '--no-ext-diff',
    '--no-textconv',
    '--no-color',
    `${base}..${tip}`,
    `${otherBase}..${otherTip}`,
    '--',
  ],
  // The authors, messages and patches of a range of commits, oldest first, binary files as text. For merges, the
  // difference to the first parent. Authors and messages are indented.
  logPatches: (directory: string, range: string) => [
    `--git-dir=${directory}`,
    'log',
    '--reverse',
    '--topo-order',
    '--format=commit%n%w(0,1,1)%an <%ae>%n%B',
    '--patch',
    '--unified=20',
    '--text',
    '--root',
    '--full-index',
    '--no-renames',
    '--diff-merges=first-parent',
    '--no-ext-diff',
    '--no-textconv',
    '--no-relative',
    '--no-color',
    '--no-mailmap',
    '--no-show-signature',
    '--ignore-submodules=none',
    '--end-of-options',
    range,
    '--',
  ],
  setHead: (directory: string, ref: string) => [
    `--git-dir=${directory}`,
    'symbolic-ref',
    '--end-of-options',
    'HEAD',
    ref,
  ],
  updateRefs: (directory: string) => [`--git-dir=${directory}`, 'update-ref', '--stdin'],
  // The value, the target if it is symbolic, and the name of each ref.
  listStoredRefs: (directory: string) => [
    `--git-dir=${directory}`,
    'for-each-ref',
    '--format=%(objectname) %(symref) %(refname)',
  ],
  readHead: (directory: string) => [`--git-dir=${directory}`, 'symbolic-ref', '--quiet', 'HEAD'],
  // Reads a configuration file that is a blob.
  listConfigIn: (directory: string, blob: string) => [
    `--git-dir=${directory}`,
    'config',
    `--blob=${blob}`,
    '--no-includes',
    '--null',
    '--list',
  ],
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
  // The patch of a file between two commits, without context.
  diffLines: (directory: string, before: string, after: string, path: string) => [
    `--git-dir=${directory}`,
    '--literal-pathspecs',
    'diff-tree',
    '--patch',
    '--unified=0',
    '--no-renames',
    '--no-ext-diff',
    '--no-textconv',
    '--no-relative',
    '--no-color',
    '--ignore-submodules=none',
    '--end-of-options',
    before,
    after,
    '--',
    path,
  ],
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
  mergeBases: (directory: string, ours: string, theirs: string) => [
    `--git-dir=${directory}`,
    'merge-base',
    '--all',
    '--end-of-options',
    ours,
    theirs,
  ],
  // The merges of a range of commits.
  listMerges: (directory: string, range: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--min-parents=2',
    '--max-count=1',
    '--end-of-options',
    range,
    '--',
  ],
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

/** For commands without `--end-of-options`. */
function requireId(id: string): string {
  if (!isObjectId(id)) throw new TypeError('Not the id of an object')
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
