/** Every git command that may run. Nothing else is ever started, and no caller adds an option of its own. */
export const gitCommands = {
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
  // It writes nothing: what nobody refers to is not even listed.
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
  // Strict: it fails when anything is missing that one of the objects leads to.
  takePack: (directory: string, maxBytes: string) => [
    `--git-dir=${directory}`,
    'index-pack',
    '--stdin',
    '-v',
    `--strict=${harmlessFaults.map((fault) => `${fault}=ignore`).join()}`,
    `--max-input-size=${maxBytes}`,
  ],
  // `info` and `contents` on standard input, answered one by one.
  readObjects: (directory: string) => [`--git-dir=${directory}`, 'cat-file', '--batch-command'],
  // Standard input names one commit, and says that its parents are left out.
  packCommit: (directory: string) => [
    `--git-dir=${directory}`,
    'pack-objects',
    '--revs',
    '--shallow',
    '--stdout',
    '--delta-base-offset',
    '--quiet',
  ],
  // Between two commits: with the names of what lies below folders, and nothing for renames.
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
  listCommits: (directory: string, most: string, since: string, until: string) => [
    `--git-dir=${directory}`,
    'log',
    '-z',
    `--max-count=${most}`,
    '--format=%H%n%an%n%s',
    '--end-of-options',
    `${since}..${until}`,
  ],
  // The newest first, each with its files. The commits that are left out have `^` before their ids.
  logWithFiles: (directory: string, most: string, ...ends: string[]) => [
    ...logOf(directory),
    ...filesOfCommits,
    `--max-count=${most}`,
    '--end-of-options',
    ...ends,
    '--',
  ],
  // One commit with its files, and with the branches that lead to it.
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
  // The same without files, after as many as are known.
  logAlone: (directory: string, most: string, skipped: string, ...ends: string[]) => [
    ...logOf(directory),
    `--max-count=${most}`,
    `--skip=${skipped}`,
    '--no-patch',
    '--end-of-options',
    ...ends,
    '--',
  ],
  // Of a working tree: what HEAD is, without looking at files that it does not have.
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
  // All files of a working tree but the ignored ones.
  listFiles: (directory: string, tree: string) => [
    `--git-dir=${directory}`,
    `--work-tree=${tree}`,
    'ls-files',
    '-z',
    '--cached',
    '--others',
    '--exclude-standard',
  ],
  // Its exit code tells: 0 when the one is in the history of the other, 1 when it is not.
  isAncestor: (directory: string, before: string, after: string) => [
    `--git-dir=${directory}`,
    'merge-base',
    '--is-ancestor',
    '--end-of-options',
    before,
    after,
  ],
  // The newest commits of what standard input names, each after all that build on it, with their parents.
  listParents: (directory: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--parents',
    '--date-order',
    '--max-count=50000',
    '--stdin',
  ],
  // The id of each object that standard input names, or that it is missing.
  findObjects: (directory: string) => [
    `--git-dir=${directory}`,
    'cat-file',
    '--batch-check=%(objectname)',
  ],
  setHead: (directory: string, ref: string) => [
    `--git-dir=${directory}`,
    'symbolic-ref',
    '--end-of-options',
    'HEAD',
    ref,
  ],
  updateRefs: (directory: string) => [`--git-dir=${directory}`, 'update-ref', '--stdin'],
  // Of what comes in by standard input.
  listConfig: () => ['config', '--file=-', '--no-includes', '--null', '--list'],
  packRefs: (directory: string) => [`--git-dir=${directory}`, 'pack-refs', '--all', '--prune'],
  extendGraph: (directory: string) => [...graphOf(directory), '--split'],
  // It tells no more of what no ref leads to; that may then be pruned.
  rewriteGraph: (directory: string) => [...graphOf(directory), '--split=replace'],
  // Unites packs until each is at least twice as large as the next smaller one, so that most work is small.
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
  // Unites all packs. What no ref leads to goes into a pack of its own, or to `expired` when it is older.
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
  // Fails when something is missing that a ref leads to, beyond what standard input excludes.
  checkRefs: (directory: string) => [
    `--git-dir=${directory}`,
    'rev-list',
    '--objects',
    '--quiet',
    '--all',
    '--stdin',
  ],
} as const satisfies Record<string, (...values: string[]) => string[]>

// Of merges, what differs from the first parent.
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
 * What is told of each commit: id, tree, parents, author, committer, with their times in seconds, and the names of
 * branches for a tip; the message comes last.
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

function graphOf(directory: string): string[] {
  return [`--git-dir=${directory}`, 'commit-graph', 'write', '--reachable', '--no-progress']
}

/** Settings that hold for every git command, whatever a repository's own configuration says. */
export function gitConfig({
  hooksPath,
  pushMaxBytes,
}: {
  hooksPath: string
  pushMaxBytes: number
}) {
  return {
    'core.hooksPath': hooksPath,
    // Without these, git reports a push as done before its refs and small packs are on the disk.
    'core.fsync': 'all',
    'receive.unpackLimit': '1',
    'receive.maxInputSize': String(pushMaxBytes),
    'receive.advertisePushOptions': 'true',
    'receive.advertiseAtomic': 'true',
    // Deletions of the default branch are refused by the hook, with a way out; Git would give advice about settings.
    'receive.denyDeleteCurrent': 'ignore',
    // Maintenance is no business of a request.
    'receive.autogc': 'false',
    'gc.auto': '0',
    'maintenance.auto': 'false',
    'receive.updateServerInfo': 'false',
    'transfer.fsckObjects': 'true',
    ...ignoring('receive.fsck'),
    ...ignoring('fetch.fsck'),
    ...ignoring('fsck'),
    'fetch.unpackLimit': '1',
    'transfer.hideRefs': 'refs/svc',
    'uploadpack.allowFilter': 'true',
    // Version 2 of the protocol gives any object that is asked for by id; the older ones then do, too.
    'uploadpack.allowAnySHA1InWant': 'true',
    'core.alternateRefsCommand': 'true',
    // Blobs beyond this are streamed, so that memory does not grow with the largest file.
    'core.bigFileThreshold': '16m',
    // Maintenance takes these locks for a moment, which a push should wait for: git's own patience is 0.1 s and 1 s.
    'core.filesRefLockTimeout': '3000',
    'core.packedRefsTimeout': '10000',
    'safe.bareRepository': 'explicit',
    // The data directory is ours by its lock and mode, whoever owns it in a container's volume.
    'safe.directory': '*',
    'protocol.allow': 'never',
    'advice.defaultBranchName': 'false',
  }
}

function ignoring(section: string): Record<string, string> {
  return Object.fromEntries(harmlessFaults.map((fault) => [`${section}.${fault}`, 'ignore']))
}

/** Further settings for maintenance, which takes its time and little memory. */
export const maintenanceConfig = {
  'pack.threads': '1',
  'pack.windowMemory': '64m',
  'pack.writeBitmapHashCache': 'true',
  'pack.writeBitmapLookupTable': 'true',
}

// Written by old tools into much of the world's history, and understood by all of git.
const harmlessFaults = [
  'badTimezone',
  'missingSpaceBeforeDate',
  'missingSpaceBeforeEmail',
  'zeroPaddedDate',
  'zeroPaddedFilemode',
]
