import { resolve } from 'node:path'
import type { Setting } from './setting.ts'
import { gib, kib, parsePaths, size, wholeNumber } from './setting-values.ts'

/** Settings of imports. */
export const importSettings = {
  importLocalRoots: {
    variable: 'SVC_IMPORT_LOCAL_ROOTS',
    description:
      'Directories on the server from which all users may import repositories. Admins may import from anywhere but the data directory.',
    accepts: 'absolute paths, separated by colons',
    fallback: '',
    parse: parsePaths,
  } satisfies Setting<string[]>,
  importMaxBytes: {
    variable: 'SVC_IMPORT_MAX',
    description: 'Maximum size of an imported repository.',
    fallback: '5GiB',
    ...size(kib, 1024 * gib),
  } satisfies Setting<number>,
  importSeconds: {
    variable: 'SVC_IMPORT_SECONDS',
    description: 'Maximum duration of an import.',
    accepts: 'seconds from 1 to 86400',
    fallback: '1800',
    parse: wholeNumber(1, 86_400),
  } satisfies Setting<number>,
  importStallSeconds: {
    variable: 'SVC_IMPORT_STALL_SECONDS',
    description: 'Time after which an import that makes no progress fails.',
    accepts: 'seconds from 1 to 3600',
    fallback: '30',
    parse: wholeNumber(1, 3600),
  } satisfies Setting<number>,
  importKnownHostsFile: {
    variable: 'SVC_IMPORT_KNOWN_HOSTS_FILE',
    description:
      'File with keys of SSH hosts that imports trust, in the form of known_hosts. Other hosts are trusted on first use, by each server on its own.',
    accepts: 'a path',
    fallback: '',
    parse: (text) => (/[\0\r\n]/.test(text) ? undefined : resolve(text)),
  } satisfies Setting<string>,
  maxConcurrentImports: {
    variable: 'SVC_IMPORTS_AT_ONCE',
    description:
      'Maximum number of concurrent imports, at most three quarters of them for one user.',
    accepts: 'a whole number from 1 to 1000',
    fallback: '4',
    parse: wholeNumber(1, 1000),
  } satisfies Setting<number>,
}
