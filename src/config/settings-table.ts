import { resolve } from 'node:path'
import { type FaultStep, faultSteps } from '../base/fault-points.ts'
import { Sensitive } from '../base/sensitive.ts'
import { isTokenString } from '../base/token-string.ts'
import {
  type Allowed,
  allowedFault,
  allowedForm,
  parseAllowed,
} from '../outbound/allowed-ranges.ts'
import { eventSettings } from './event-settings.ts'
import { gitLimitSettings } from './git-limit-settings.ts'
import { httpSettings } from './http-settings.ts'
import type { Setting } from './setting.ts'
import {
  encryptionKeyForm,
  gib,
  kib,
  mib,
  parseEncryptionKeys,
  parseHost,
  parsePaths,
  size,
  wholeNumber,
} from './setting-values.ts'
import { workflowSettings } from './workflow-settings.ts'

/** Every setting of the program. */
export const settings = {
  ...httpSettings,
  dataDir: {
    variable: 'SVC_DATA_DIR',
    description: 'Folder that holds everything that is kept.',
    accepts: 'a path',
    fallback: './data',
    parse: (text) => (/[\0\r\n]/.test(text) ? undefined : resolve(text)),
  } satisfies Setting<string>,
  databaseUrl: {
    variable: 'SVC_DATABASE_URL',
    description: 'PostgreSQL database to use in place of SQLite in the data folder.',
    accepts: 'a postgres:// or postgresql:// address',
    fallback: '',
    parse: (text) => (/^postgres(ql)?:\/\/\S+$/.test(text) ? new Sensitive(text) : undefined),
    sensitive: true,
  } satisfies Setting<Sensitive<string>>,
  freeSpaceLeast: {
    variable: 'SVC_FREE_SPACE_MIN',
    description:
      'Space that is kept free on the disk of the data folder: below it, what would write is refused. Default: 512MiB, or a twentieth of the disk if that is more.',
    fallback: '',
    ...size(0, 1024 * gib),
  } satisfies Setting<number>,
  adminToken: {
    variable: 'SVC_ADMIN_TOKEN',
    description: 'Token string to install as an admin token at start, for containers and tests.',
    accepts:
      'svc_, 30 characters of 0-9A-Za-z and their checksum of 6, as `svc tokens create` makes it',
    fallback: '',
    parse: (text) => (isTokenString(text) ? new Sensitive(text) : undefined),
    sensitive: true,
  } satisfies Setting<Sensitive<string>>,
  encryptionKey: {
    variable: 'SVC_ENCRYPTION_KEY',
    description:
      'Keys for secrets: the first encrypts, all decrypt. Default: what `encryption.key` in the data folder holds.',
    accepts: `${encryptionKeyForm}, or several such keys separated by commas`,
    fallback: '',
    parse: parseEncryptionKeys,
    sensitive: true,
  } satisfies Setting<Sensitive<readonly Buffer[]>>,
  encryptionKeyFile: {
    variable: 'SVC_ENCRYPTION_KEY_FILE',
    description: 'File that holds the keys for secrets, in place of SVC_ENCRYPTION_KEY.',
    accepts: 'the path of a file with keys as SVC_ENCRYPTION_KEY takes them, or with a key a line',
    fallback: '',
    // Who takes it for the other variable must not find the key in an error text.
    parse: (text) =>
      /[\0\r\n]/.test(text) || parseEncryptionKeys(text) ? undefined : resolve(text),
    sensitive: true,
  } satisfies Setting<string>,
  logLevel: {
    variable: 'SVC_LOG_LEVEL',
    description: 'Least severe level that is logged, on standard error.',
    accepts: 'one of debug, info, warn, error, silent',
    fallback: 'info',
    parse: (text) => logLevels.find((level) => level === text),
  } satisfies Setting<LogLevel>,
  jsonBodyMaxBytes: {
    variable: 'SVC_JSON_BODY_MAX',
    description: 'Largest JSON body.',
    fallback: '1MiB',
    ...size(kib, 64 * mib),
  } satisfies Setting<number>,
  bodySeconds: {
    variable: 'SVC_JSON_BODY_SECONDS',
    description: 'Time in which a JSON body must have arrived.',
    accepts: 'seconds from 1 to 600',
    fallback: '30',
    parse: wholeNumber(1, 600),
  } satisfies Setting<number>,
  requestsPerSecond: {
    variable: 'SVC_REQUESTS_PER_SECOND',
    description: 'API requests a second that a token may make over time.',
    accepts: 'a whole number from 1 to 1000000',
    fallback: '100',
    parse: wholeNumber(1, 1_000_000),
  } satisfies Setting<number>,
  requestBurst: {
    variable: 'SVC_REQUEST_BURST',
    description: 'API requests that a token may make at once.',
    accepts: 'a whole number from 1 to 1000000',
    fallback: '200',
    parse: wholeNumber(1, 1_000_000),
  } satisfies Setting<number>,
  badTokensPerMinute: {
    variable: 'SVC_BAD_TOKENS_PER_MINUTE',
    description: 'Bad tokens a minute that an address may send; good ones always work.',
    accepts: 'a whole number from 1 to 1000000',
    fallback: '300',
    parse: wholeNumber(1, 1_000_000),
  } satisfies Setting<number>,
  pushMaxBytes: {
    variable: 'SVC_PUSH_MAX',
    description: 'Largest push.',
    fallback: '2GiB',
    ...size(kib, 1024 * gib),
  } satisfies Setting<number>,
  pushMaxRefs: {
    variable: 'SVC_PUSH_MAX_REFS',
    description: 'Most branches, tags and other refs that one push may change.',
    accepts: 'a whole number from 1 to 100000',
    fallback: '5000',
    parse: wholeNumber(1, 100_000),
  } satisfies Setting<number>,
  fetchRequestMaxBytes: {
    variable: 'SVC_FETCH_REQUEST_MAX',
    description: 'Largest request of a fetch, inflated.',
    fallback: '10MiB',
    ...size(kib, gib),
  } satisfies Setting<number>,
  refsCacheBytes: {
    variable: 'SVC_REFS_CACHE',
    description:
      'Memory for the refs of repositories, in each of the two processes that serve Git.',
    fallback: '64MiB',
    ...size(0, 64 * gib),
  } satisfies Setting<number>,
  gitStallSeconds: {
    variable: 'SVC_GIT_STALL_SECONDS',
    description: 'Time after which a Git request is ended whose client neither sends nor reads.',
    accepts: 'seconds from 1 to 86400',
    fallback: '60',
    parse: wholeNumber(1, 86_400),
  } satisfies Setting<number>,
  fetchesAtOnce: {
    variable: 'SVC_FETCHES_AT_ONCE',
    description:
      'Fetches and clones that are worked on at once; of these, no user and no repository gets more than three quarters. Default: 4 for each core.',
    accepts: 'a whole number from 1 to 10000',
    fallback: '',
    parse: wholeNumber(1, 10_000),
  } satisfies Setting<number>,
  repositoryFetchesAtOnce: {
    variable: 'SVC_REPOSITORY_FETCHES_AT_ONCE',
    description:
      'Fetches and clones that are worked on at once for one user, or of one repository.',
    accepts: 'a whole number from 1 to 10000',
    fallback: '20',
    parse: wholeNumber(1, 10_000),
  } satisfies Setting<number>,
  fetchCacheBytes: {
    variable: 'SVC_FETCH_CACHE_SIZE',
    description:
      'Space for answers of fetches and clones that may be given again, for HTTP and as much for SSH; with 0 none is kept, but who asks for the same at once still shares one.',
    fallback: '1GiB',
    ...size(0, 1024 * gib),
  } satisfies Setting<number>,
  fetchCacheSeconds: {
    variable: 'SVC_FETCH_CACHE_SECONDS',
    description: 'Time for which such an answer is kept.',
    accepts: 'seconds from 1 to 604800',
    fallback: '3600',
    parse: wholeNumber(1, 604_800),
  } satisfies Setting<number>,
  pushMemoryMaxBytes: {
    variable: 'SVC_PUSH_MEMORY_MAX',
    description: 'Most memory that each process of a push or an import may take.',
    fallback: '1GiB',
    ...size(64 * mib, 1024 * gib),
  } satisfies Setting<number>,
  ...gitLimitSettings,
  pushesAtOnce: {
    variable: 'SVC_PUSHES_AT_ONCE',
    description:
      'Pushes that are received at once; of these, no user and no repository gets more than three quarters.',
    accepts: 'a whole number from 1 to 10000',
    fallback: '64',
    parse: wholeNumber(1, 10_000),
  } satisfies Setting<number>,
  repositoryPushesAtOnce: {
    variable: 'SVC_REPOSITORY_PUSHES_AT_ONCE',
    description: 'Pushes that are received at once from one user, or into one repository.',
    accepts: 'a whole number from 1 to 10000',
    fallback: '20',
    parse: wholeNumber(1, 10_000),
  } satisfies Setting<number>,
  gitWaiting: {
    variable: 'SVC_GIT_WAITING',
    description:
      'Fetches, clones and pushes that may wait for their turn; further ones get 503: the last ones of whoever has the most waiting.',
    accepts: 'a whole number from 0 to 100000',
    fallback: '100',
    parse: wholeNumber(0, 100_000),
  } satisfies Setting<number>,
  gitWaitSeconds: {
    variable: 'SVC_GIT_WAIT_SECONDS',
    description: 'Longest wait of a fetch, clone or push for its turn, then it gets 503.',
    accepts: 'seconds from 1 to 3600',
    fallback: '30',
    parse: wholeNumber(1, 3600),
  } satisfies Setting<number>,
  importLocalRoots: {
    variable: 'SVC_IMPORT_LOCAL_ROOTS',
    description:
      'Folders of the server below which everybody may import repositories; admins may from anywhere but the data folder.',
    accepts: 'absolute paths, separated by colons',
    fallback: '',
    parse: parsePaths,
  } satisfies Setting<string[]>,
  importMaxBytes: {
    variable: 'SVC_IMPORT_MAX',
    description: 'Largest repository that may be imported.',
    fallback: '5GiB',
    ...size(kib, 1024 * gib),
  } satisfies Setting<number>,
  importSeconds: {
    variable: 'SVC_IMPORT_SECONDS',
    description: 'Time that an import may take.',
    accepts: 'seconds from 1 to 86400',
    fallback: '1800',
    parse: wholeNumber(1, 86_400),
  } satisfies Setting<number>,
  importStallSeconds: {
    variable: 'SVC_IMPORT_STALL_SECONDS',
    description: 'Time after which an import is given up that makes no progress.',
    accepts: 'seconds from 1 to 3600',
    fallback: '30',
    parse: wholeNumber(1, 3600),
  } satisfies Setting<number>,
  importsAtOnce: {
    variable: 'SVC_IMPORTS_AT_ONCE',
    description:
      'Imports that are worked on at once; of these, no user gets more than three quarters.',
    accepts: 'a whole number from 1 to 1000',
    fallback: '4',
    parse: wholeNumber(1, 1000),
  } satisfies Setting<number>,
  sshHost: {
    variable: 'SVC_SSH_HOST',
    description: 'Address on which SSH listens.',
    accepts: 'an IP address or a host name',
    fallback: '127.0.0.1',
    parse: parseHost,
  } satisfies Setting<string>,
  sshPort: {
    variable: 'SVC_SSH_PORT',
    description: 'Port on which SSH listens; 0 picks a free one, off disables SSH.',
    accepts: 'a whole number from 0 to 65535, or off',
    fallback: '2222',
    parse: (text) => (text === 'off' ? text : wholeNumber(0, 65_535)(text)),
  } satisfies Setting<number | 'off'>,
  sshAnonymousRead: {
    variable: 'SVC_SSH_ANONYMOUS_READ',
    description: 'Whether the SSH user `anonymous` may read every repository without a key.',
    accepts: 'true or false',
    fallback: 'false',
    parse: (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
  } satisfies Setting<boolean>,
  sshLoginSeconds: {
    variable: 'SVC_SSH_LOGIN_SECONDS',
    description: 'Time in which an SSH client must have authenticated.',
    accepts: 'seconds from 1 to 600',
    fallback: '15',
    parse: wholeNumber(1, 600),
  } satisfies Setting<number>,
  sshLoginTries: {
    variable: 'SVC_SSH_LOGIN_TRIES',
    description: 'Keys that an SSH client may offer in vain on one connection.',
    accepts: 'a whole number from 1 to 40',
    fallback: '6',
    parse: wholeNumber(1, 40),
  } satisfies Setting<number>,
  sshConnections: {
    variable: 'SVC_SSH_CONNECTIONS',
    description:
      'SSH connections that may be open at once; of these, no user gets more than a quarter.',
    accepts: 'a whole number from 1 to 100000',
    fallback: '1000',
    parse: wholeNumber(1, 100_000),
  } satisfies Setting<number>,
  sshUnauthenticated: {
    variable: 'SVC_SSH_UNAUTHENTICATED',
    description:
      'SSH clients that may be authenticating at once; beyond that, addresses that have many make room, and who takes longer than a second.',
    accepts: 'a whole number from 1 to 100000',
    fallback: '200',
    parse: wholeNumber(1, 100_000),
  } satisfies Setting<number>,
  sshUnauthenticatedPerAddress: {
    variable: 'SVC_SSH_UNAUTHENTICATED_PER_ADDRESS',
    description: 'The same, from one address; others from there wait for up to 3 seconds.',
    accepts: 'a whole number from 1 to 100000',
    fallback: '20',
    parse: wholeNumber(1, 100_000),
  } satisfies Setting<number>,
  sshChannels: {
    variable: 'SVC_SSH_CHANNELS',
    description: 'Channels, and so commands, that one SSH connection may have open at once.',
    accepts: 'a whole number from 1 to 1000',
    fallback: '10',
    parse: wholeNumber(1, 1000),
  } satisfies Setting<number>,
  sshCommandMaxBytes: {
    variable: 'SVC_SSH_COMMAND_MAX',
    description: 'Longest command line over SSH.',
    fallback: '4KiB',
    ...size(256, 32 * kib),
  } satisfies Setting<number>,
  sshIdleSeconds: {
    variable: 'SVC_SSH_IDLE_SECONDS',
    description: 'Time after which an SSH connection on which nothing runs is closed.',
    accepts: 'seconds from 1 to 86400',
    fallback: '600',
    parse: wholeNumber(1, 86_400),
  } satisfies Setting<number>,
  outboundAllow: {
    variable: 'SVC_OUTBOUND_ALLOW',
    description:
      'What imports and webhooks may connect to; only the entries of this list. Default: external, and loopback while HTTP and SSH listen on loopback alone and SVC_BASE_URL is there, too.',
    accepts: allowedForm,
    fallback: '',
    parse: parseAllowed,
    fault: allowedFault,
  } satisfies Setting<Allowed>,
  ...workflowSettings,
  ...eventSettings,
  maintenancePushes: {
    variable: 'SVC_MAINTENANCE_PUSHES',
    description:
      'Pushes after which the files of a repository are put in order (after fewer, a day later; after an import or 10,000 new objects at once; one that moves many refs counts for each four of them); with off, only when `svc repos maintain` asks.',
    accepts: 'a whole number from 1 to 1000000, or off',
    fallback: '50',
    parse: (text) => (text === 'off' ? text : wholeNumber(1, 1_000_000)(text)),
  } satisfies Setting<number | 'off'>,
  maintenanceMemoryMaxBytes: {
    variable: 'SVC_MAINTENANCE_MEMORY_MAX',
    description: 'Most memory that each process of maintenance may take.',
    fallback: '2GiB',
    ...size(64 * mib, 1024 * gib),
  } satisfies Setting<number>,
  stopSeconds: {
    variable: 'SVC_STOP_SECONDS',
    description: 'Time that running requests get when the service is told to stop.',
    accepts: 'seconds from 0 to 3600',
    fallback: '30',
    parse: wholeNumber(0, 3600),
  } satisfies Setting<number>,
  faultPoint: {
    variable: 'SVC_FAULT_POINT',
    description: 'For tests of svc itself: the step after which it ends as kill -9 would end it.',
    accepts: `one of ${faultSteps.join(', ')}`,
    fallback: '',
    parse: (text) => faultSteps.find((step) => step === text),
  } satisfies Setting<FaultStep>,
}

const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const
type LogLevel = (typeof logLevels)[number]
