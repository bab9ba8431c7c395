/** Git settings of every command, which override a repository's own configuration. */
export function gitConfig({
  hooksPath,
  pushMaxBytes,
}: {
  hooksPath: string
  pushMaxBytes: number
}) {
  return {
    'core.hooksPath': hooksPath,
    // Durability: without these, git reports success before refs and small packs are on disk.
    'core.fsync': 'all',
    'receive.unpackLimit': '1',
    'receive.maxInputSize': String(pushMaxBytes),
    'receive.advertisePushOptions': 'true',
    'receive.advertiseAtomic': 'true',
    // The hook rejects deleting the default branch, with a better message than git's advice about settings.
    'receive.denyDeleteCurrent': 'ignore',
    // Maintenance runs in the background, not within requests.
    'receive.autogc': 'false',
    'gc.auto': '0',
    'maintenance.auto': 'false',
    'receive.updateServerInfo': 'false',
    'transfer.fsckObjects': 'true',
    ...ignoring('receive.fsck'),
    ...ignoring('fetch.fsck'),
    ...ignoring('fsck'),
    'fetch.unpackLimit': '1',
    // Git from 2.41 writes one for each pack: another file to sync in each push, of which small packs have no use.
    'pack.writeReverseIndex': 'false',
    'transfer.hideRefs': 'refs/svc',
    'uploadpack.allowFilter': 'true',
    // Protocol version 2 serves any object by id; this makes the older versions consistent.
    'uploadpack.allowAnySHA1InWant': 'true',
    'transfer.advertiseObjectInfo': 'true',
    'core.alternateRefsCommand': 'true',
    // Larger blobs are streamed, so that memory does not grow with the largest file. To fsck of Git 2.55, a blob of exactly
    // this size is corrupt, so it is one that is rare: 16 MiB and a byte.
    'core.bigFileThreshold': '16777217',
    // Maintenance holds these locks briefly, and pushes should wait for it: git's defaults are 0.1 s and 1 s.
    'core.filesRefLockTimeout': '3000',
    'core.packedRefsTimeout': '10000',
    'safe.bareRepository': 'explicit',
    // A container's volume may have another owner; the data directory is protected by its lock and mode.
    'safe.directory': '*',
    'protocol.allow': 'never',
    'advice.defaultBranchName': 'false',
  }
}

function ignoring(section: string): Record<string, string> {
  return Object.fromEntries(harmlessFaults.map((fault) => [`${section}.${fault}`, 'ignore']))
}

/** Further settings for maintenance, which trades speed for little memory. */
export const maintenanceConfig = {
  'pack.threads': '1',
  'pack.windowMemory': '64m',
  'pack.writeBitmapHashCache': 'true',
  'pack.writeBitmapLookupTable': 'true',
}

// In histories written by old tools, which other hosts serve, and harmless to git: git-fsck(1), "FSCK MESSAGES".
export const harmlessFaults = [
  'badDate',
  'badDateOverflow',
  'badEmail',
  'badName',
  'badTimezone',
  'missingEmail',
  'missingNameBeforeEmail',
  'missingSpaceBeforeDate',
  'missingSpaceBeforeEmail',
  'multipleAuthors',
  'nulInCommit',
  'zeroPaddedDate',
  'zeroPaddedFilemode',
]
