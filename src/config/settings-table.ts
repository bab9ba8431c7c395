import { resolve } from 'node:path'
import { type FaultStep, faultSteps } from '#base/fault-points.ts'
import {
  type Allowed,
  allowedFault,
  allowedForm,
  parseAllowed,
} from '#base/outbound/allowed-ranges.ts'
import { Sensitive } from '#base/sensitive.ts'
import { isTokenString } from '#base/token-string.ts'
import { browseSettings } from './browse-settings.ts'
import { eventSettings } from './event-settings.ts'
import { gitLimitSettings } from './git-limit-settings.ts'
import { httpSettings } from './http-settings.ts'
import { importSettings } from './import-settings.ts'
import { pageSettings } from './page-settings.ts'
import { runFileSettings } from './run-file-settings.ts'
import type { Setting } from './setting.ts'
import {
  encryptionKeyForm,
  gib,
  kib,
  mib,
  parseEncryptionKeys,
  parseHost,
  size,
  wholeNumber,
} from './setting-values.ts'
import { storeSettings } from './store-settings.ts'
import { waitingPushSettings } from './waiting-push-settings.ts'
import { workflowSettings } from './workflow-settings.ts'

/** All settings of the program. */
export const settings = {
  ...httpSettings,
  dataDir: {
    variable: 'SVC_DATA_DIR',
    description: 'Data directory: repositories, keys, and the SQLite database.',
    accepts: 'a path',
    fallback: './data',
    parse: (text) => (/[\0\r\n]/.test(text) ? undefined : resolve(text)),
  } satisfies Setting<string>,
  databaseUrl: {
    variable: 'SVC_DATABASE_URL',
    description: 'PostgreSQL database to use instead of SQLite in the data directory.',
    accepts: 'a postgres:// or postgresql:// address',
    fallback: '',
    parse: (text) => (/^postgres(ql)?:\/\/\S+$/.test(text) ? new Sensitive(text) : undefined),
    sensitive: true,
  } satisfies Setting<Sensitive<string>>,
  ...storeSettings,
  ...browseSettings,
  ...pageSettings,
  freeSpaceMinBytes: {
    variable: 'SVC_FREE_SPACE_MIN',
    description:
      'Minimum free space on the disk of the data directory; below it, operations that write are rejected. Default: 512MiB, or 5% of the disk if that is more.',
    fallback: '',
    ...size(0, 1024 * gib),
  } satisfies Setting<number>,
  adminToken: {
    variable: 'SVC_ADMIN_TOKEN',
    description: 'Token to install as an admin token at start, for containers and tests.',
    accepts:
      'svc_, 30 characters of 0-9A-Za-z and a checksum of 6 characters, as printed by `svc tokens create`',
    fallback: '',
    parse: (text) => (isTokenString(text) ? new Sensitive(text) : undefined),
    sensitive: true,
  } satisfies Setting<Sensitive<string>>,
  encryptionKey: {
    variable: 'SVC_ENCRYPTION_KEY',
    description:
      'Encryption keys for secrets: the first encrypts, all decrypt. Default: the contents of `encryption.key` in the data directory.',
    accepts: `${encryptionKeyForm}, or several such keys separated by commas`,
    fallback: '',
    parse: parseEncryptionKeys,
    sensitive: true,
  } satisfies Setting<Sensitive<readonly Buffer[]>>,
  encryptionKeyFile: {
    variable: 'SVC_ENCRYPTION_KEY_FILE',
    description: 'File with the encryption keys for secrets, instead of SVC_ENCRYPTION_KEY.',
    accepts: 'the path of a file with keys as in SVC_ENCRYPTION_KEY, or with one key per line',
    fallback: '',
    // A key set here by mistake must not appear in an error text.
    parse: (text) =>
      /[\0\r\n]/.test(text) || parseEncryptionKeys(text) ? undefined : resolve(text),
    sensitive: true,
  } satisfies Setting<string>,
  logLevel: {
    variable: 'SVC_LOG_LEVEL',
    description: 'Minimum level of log messages, which go to standard error.',
    accepts: 'one of debug, info, warn, error, silent',
    fallback: 'info',
    parse: (text) => logLevels.find((level) => level === text),
  } satisfies Setting<LogLevel>,
  jsonBodyMaxBytes: {
    variable: 'SVC_JSON_BODY_MAX',
    description: 'Maximum size of a JSON request body.',
    fallback: '1MiB',
    ...size(kib, 64 * mib),
  } satisfies Setting<number>,
  bodySeconds: {
    variable: 'SVC_JSON_BODY_SECONDS',
    description: 'Timeout for receiving a JSON request body.',
    accepts: 'seconds from 1 to 600',
    fallback: '30',
    parse: wholeNumber(1, 600),
  } satisfies Setting<number>,
  requestsPerSecond: {
    variable: 'SVC_REQUESTS_PER_SECOND',
    description:
      'Sustained rate of API requests per user, in requests per second; of pages, a fifth of it per session.',
    accepts: 'a whole number from 1 to 1000000',
    fallback: '100',
    parse: wholeNumber(1, 1_000_000),
  } satisfies Setting<number>,
  requestBurst: {
    variable: 'SVC_REQUEST_BURST',
    description:
      'API requests that a user may make in one burst, and pages that a session may open.',
    accepts: 'a whole number from 1 to 1000000',
    fallback: '200',
    parse: wholeNumber(1, 1_000_000),
  } satisfies Setting<number>,
  badTokensPerMinute: {
    variable: 'SVC_BAD_TOKENS_PER_MINUTE',
    description:
      'Invalid tokens per minute that an address may send; valid tokens from the same address always work.',
    accepts: 'a whole number from 1 to 1000000',
    fallback: '300',
    parse: wholeNumber(1, 1_000_000),
  } satisfies Setting<number>,
  pushMaxBytes: {
    variable: 'SVC_PUSH_MAX',
    description: 'Maximum size of a push.',
    fallback: '2GiB',
    ...size(kib, 1024 * gib),
  } satisfies Setting<number>,
  pushMaxRefs: {
    variable: 'SVC_PUSH_MAX_REFS',
    description: 'Maximum number of branches, tags and other refs that one push may change.',
    accepts: 'a whole number from 1 to 100000',
    fallback: '5000',
    parse: wholeNumber(1, 100_000),
  } satisfies Setting<number>,
  fetchRequestMaxBytes: {
    variable: 'SVC_FETCH_REQUEST_MAX',
    description: 'Maximum size of a fetch request, after decompression.',
    fallback: '10MiB',
    ...size(kib, gib),
  } satisfies Setting<number>,
  refsCacheBytes: {
    variable: 'SVC_REFS_CACHE',
    description: 'Size of the ref cache in each of the two processes that serve Git.',
    fallback: '64MiB',
    ...size(0, 64 * gib),
  } satisfies Setting<number>,
  gitStallSeconds: {
    variable: 'SVC_GIT_STALL_SECONDS',
    description:
      'Time after which a Git request ends when its client stops in the middle of a transfer, or over SSH answers no more. A client that is there may take as long as it needs before a push, before the pack of a push, and between the rounds of a fetch.',
    accepts: 'seconds from 1 to 86400',
    fallback: '60',
    parse: wholeNumber(1, 86_400),
  } satisfies Setting<number>,
  maxConcurrentFetches: {
    variable: 'SVC_FETCHES_AT_ONCE',
    description:
      'Maximum number of concurrent fetches and clones that git packs, at most three quarters of them for one user or repository; stored responses do not count. Default: 4 per core.',
    accepts: 'a whole number from 1 to 10000',
    fallback: '',
    parse: wholeNumber(1, 10_000),
  } satisfies Setting<number>,
  maxConcurrentFetchesPerRepository: {
    variable: 'SVC_REPOSITORY_FETCHES_AT_ONCE',
    description:
      'Maximum number of concurrent fetches and clones that git packs, per user and per repository.',
    accepts: 'a whole number from 1 to 10000',
    fallback: '20',
    parse: wholeNumber(1, 10_000),
  } satisfies Setting<number>,
  fetchCacheBytes: {
    variable: 'SVC_FETCH_CACHE_SIZE',
    description:
      'Size of the response cache for fetches and clones, once for HTTP and once for SSH. With 0 nothing is stored, but identical concurrent requests still share one response.',
    fallback: '1GiB',
    ...size(0, 1024 * gib),
  } satisfies Setting<number>,
  fetchCacheSeconds: {
    variable: 'SVC_FETCH_CACHE_SECONDS',
    description: 'Time for which a cached response is kept after its last use.',
    accepts: 'seconds from 1 to 604800',
    fallback: '3600',
    parse: wholeNumber(1, 604_800),
  } satisfies Setting<number>,
  pushMemoryMaxBytes: {
    variable: 'SVC_PUSH_MEMORY_MAX',
    description: 'Maximum memory of each process of a push or an import.',
    fallback: '1GiB',
    ...size(64 * mib, 1024 * gib),
  } satisfies Setting<number>,
  ...gitLimitSettings,
  maxConcurrentPushes: {
    variable: 'SVC_PUSHES_AT_ONCE',
    description:
      'Maximum number of concurrent pushes, at most three quarters of them for one user or repository.',
    accepts: 'a whole number from 1 to 10000',
    fallback: '64',
    parse: wholeNumber(1, 10_000),
  } satisfies Setting<number>,
  maxConcurrentPushesPerRepository: {
    variable: 'SVC_REPOSITORY_PUSHES_AT_ONCE',
    description: 'Maximum number of concurrent pushes per user and per repository.',
    accepts: 'a whole number from 1 to 10000',
    fallback: '20',
    parse: wholeNumber(1, 10_000),
  } satisfies Setting<number>,
  ...waitingPushSettings,
  gitWaiting: {
    variable: 'SVC_GIT_WAITING',
    description:
      'Maximum number of queued fetches, clones and pushes. When the queue is full, the newest request of the user with the most queued requests gets 503.',
    accepts: 'a whole number from 0 to 100000',
    fallback: '100',
    parse: wholeNumber(0, 100_000),
  } satisfies Setting<number>,
  gitWaitSeconds: {
    variable: 'SVC_GIT_WAIT_SECONDS',
    description: 'Time after which a queued fetch, clone or push gets 503.',
    accepts: 'seconds from 1 to 3600',
    fallback: '30',
    parse: wholeNumber(1, 3600),
  } satisfies Setting<number>,
  ...importSettings,
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
  sshPublicPort: {
    variable: 'SVC_SSH_PUBLIC_PORT',
    description:
      'Port in the clone addresses for SSH, for a balancer or container that maps it. Default: the port on which SSH listens.',
    accepts: 'a whole number from 1 to 65535',
    fallback: '',
    parse: wholeNumber(1, 65_535),
  } satisfies Setting<number>,
  sshHostKeyFile: {
    variable: 'SVC_SSH_HOST_KEY_FILE',
    description:
      'File with the SSH host key, an OpenSSH private ed25519 key without a passphrase, instead of ssh_host_ed25519_key in the data directory. Servers behind one address need the same.',
    accepts: 'a path',
    fallback: '',
    parse: (text) => (/[\0\r\n]/.test(text) ? undefined : resolve(text)),
  } satisfies Setting<string>,
  sshAnonymousRead: {
    variable: 'SVC_SSH_ANONYMOUS_READ',
    description: 'Whether the SSH user `anonymous` may read every repository without a key.',
    accepts: 'true or false',
    fallback: 'false',
    parse: (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
  } satisfies Setting<boolean>,
  sshLoginSeconds: {
    variable: 'SVC_SSH_LOGIN_SECONDS',
    description: 'Timeout for the authentication of an SSH client.',
    accepts: 'seconds from 1 to 600',
    fallback: '15',
    parse: wholeNumber(1, 600),
  } satisfies Setting<number>,
  sshLoginTries: {
    variable: 'SVC_SSH_LOGIN_TRIES',
    description: 'Maximum number of rejected keys per SSH connection.',
    accepts: 'a whole number from 1 to 40',
    fallback: '6',
    parse: wholeNumber(1, 40),
  } satisfies Setting<number>,
  sshConnections: {
    variable: 'SVC_SSH_CONNECTIONS',
    description:
      'Maximum number of concurrent SSH connections, at most a quarter of them for one user.',
    accepts: 'a whole number from 1 to 100000',
    fallback: '1000',
    parse: wholeNumber(1, 100_000),
  } satisfies Setting<number>,
  sshUnauthenticated: {
    variable: 'SVC_SSH_UNAUTHENTICATED',
    description:
      'Maximum number of SSH clients that authenticate concurrently. Beyond it, connections of the addresses with the most clients, and connections older than a second, are closed.',
    accepts: 'a whole number from 1 to 100000',
    fallback: '200',
    parse: wholeNumber(1, 100_000),
  } satisfies Setting<number>,
  sshUnauthenticatedPerAddress: {
    variable: 'SVC_SSH_UNAUTHENTICATED_PER_ADDRESS',
    description:
      'Maximum number of SSH clients of one address that authenticate concurrently. Further clients wait for up to 3 seconds.',
    accepts: 'a whole number from 1 to 100000',
    fallback: '20',
    parse: wholeNumber(1, 100_000),
  } satisfies Setting<number>,
  sshChannels: {
    variable: 'SVC_SSH_CHANNELS',
    description: 'Maximum number of open channels, and so of commands, per SSH connection.',
    accepts: 'a whole number from 1 to 1000',
    fallback: '10',
    parse: wholeNumber(1, 1000),
  } satisfies Setting<number>,
  sshCommandMaxBytes: {
    variable: 'SVC_SSH_COMMAND_MAX',
    description: 'Maximum length of an SSH command line.',
    fallback: '4KiB',
    ...size(256, 32 * kib),
  } satisfies Setting<number>,
  sshIdleSeconds: {
    variable: 'SVC_SSH_IDLE_SECONDS',
    description: 'Time after which an idle SSH connection is closed.',
    accepts: 'seconds from 1 to 86400',
    fallback: '600',
    parse: wholeNumber(1, 86_400),
  } satisfies Setting<number>,
  outboundAllow: {
    variable: 'SVC_OUTBOUND_ALLOW',
    description:
      'Addresses that imports and webhooks may connect to. Default: external; also loopback when HTTP, SSH and SVC_BASE_URL use only loopback addresses.',
    accepts: allowedForm,
    fallback: '',
    parse: parseAllowed,
    fault: allowedFault,
  } satisfies Setting<Allowed>,
  ...workflowSettings,
  ...runFileSettings,
  ...eventSettings,
  maintenancePushes: {
    variable: 'SVC_MAINTENANCE_PUSHES',
    description:
      'Number of pushes after which a repository is maintained; after fewer pushes, it is maintained a day later, and after an import or 10,000 new objects at once. A push of many refs counts once for every four of them. With off, only `svc repos maintain` maintains repositories.',
    accepts: 'a whole number from 1 to 1000000, or off',
    fallback: '50',
    parse: (text) => (text === 'off' ? text : wholeNumber(1, 1_000_000)(text)),
  } satisfies Setting<number | 'off'>,
  maintenanceMemoryMaxBytes: {
    variable: 'SVC_MAINTENANCE_MEMORY_MAX',
    description: 'Maximum memory of each maintenance process.',
    fallback: '2GiB',
    ...size(64 * mib, 1024 * gib),
  } satisfies Setting<number>,
  stopSeconds: {
    variable: 'SVC_STOP_SECONDS',
    description: 'Time that running requests get when the service shuts down.',
    accepts: 'seconds from 0 to 3600',
    fallback: '30',
    parse: wholeNumber(0, 3600),
  } satisfies Setting<number>,
  faultPoint: {
    variable: 'SVC_FAULT_POINT',
    description: 'For tests of svc itself: the step after which it ends as if by kill -9.',
    accepts: `one of ${faultSteps.join(', ')}`,
    fallback: '',
    parse: (text) => faultSteps.find((step) => step === text),
  } satisfies Setting<FaultStep>,
}

const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const
type LogLevel = (typeof logLevels)[number]
