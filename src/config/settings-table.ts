import { resolve } from 'node:path'
import { type FaultStep, faultSteps } from '#base/fault-points.ts'
import { type ObjectFormat, objectFormats } from '#base/object-id.ts'
import {
  type Allowed,
  allowedFault,
  allowedForm,
  parseAllowed,
} from '#base/outbound/allowed-ranges.ts'
import {
  type ListedHosts,
  listedHostsFault,
  listedHostsForm,
  parseListedHosts,
} from '#base/outbound/listed-hosts.ts'
import { Sensitive } from '#base/sensitive.ts'
import { isTokenString } from '#base/token-string.ts'
import type { Setting } from './setting.ts'
import {
  count,
  days,
  encryptionKeyForm,
  gib,
  kib,
  mib,
  onOrOff,
  parseBaseUrl,
  parseClaim,
  parseEncryptionKeys,
  parseGroups,
  parseHost,
  parseIssuer,
  parsePaths,
  parseRanges,
  parseSchedule,
  parseStepEnv,
  seconds,
  size,
  wholeNumber,
} from './setting-values.ts'
import { parseStoreAddress, type StoreAddress, storeAddressFault } from './store-settings.ts'

/** All settings of the program. */
export const settings = {
  host: {
    variable: 'SVC_HOST',
    description: 'Address on which HTTP listens.',
    accepts: 'an IP address or a host name',
    fallback: '127.0.0.1',
    parse: parseHost,
  } satisfies Setting<string>,
  port: {
    variable: 'SVC_PORT',
    description: 'Port on which HTTP listens; 0 picks a free one.',
    fallback: '8080',
    ...count(0, 65_535),
  } satisfies Setting<number>,
  baseUrl: {
    variable: 'SVC_BASE_URL',
    description:
      'Public address of the service, used in clone addresses. Default: the address that a trusted proxy gives for a request, and otherwise that on which HTTP listens.',
    accepts: 'an http or https address without user, query or fragment',
    fallback: '',
    parse: parseBaseUrl,
  } satisfies Setting<string>,
  httpConnections: {
    variable: 'SVC_HTTP_CONNECTIONS',
    description:
      'Maximum number of concurrent HTTP connections of users, at most a quarter of them for one user. For a trusted proxy, its concurrent requests count instead.',
    fallback: '4000',
    ...count(1, 100_000),
  } satisfies Setting<number>,
  httpUnauthenticated: {
    variable: 'SVC_HTTP_UNAUTHENTICATED',
    description:
      'Maximum number of concurrent HTTP connections without an authenticated request. Beyond it, connections of the addresses with the most of them, and connections older than a second, are closed.',
    fallback: '1000',
    ...count(1, 100_000),
  } satisfies Setting<number>,
  httpUnauthenticatedPerAddress: {
    variable: 'SVC_HTTP_UNAUTHENTICATED_PER_ADDRESS',
    description:
      'Maximum number of concurrent HTTP connections of one address without an authenticated request. Idle ones are closed for further ones, which otherwise wait for up to 3 seconds.',
    fallback: '200',
    ...count(1, 100_000),
  } satisfies Setting<number>,
  trustedProxies: {
    variable: 'SVC_TRUSTED_PROXIES',
    description:
      'Proxies whose X-Forwarded-For and X-Forwarded-Proto headers are trusted; they are ignored from all other clients.',
    accepts: 'IP addresses and CIDRs, separated by commas',
    fallback: '',
    parse: parseRanges,
  } satisfies Setting<readonly string[]>,
  namespaceCreators: {
    variable: 'SVC_NAMESPACE_CREATORS',
    description: 'Who may create namespaces besides admins.',
    accepts: 'usernames, and groups of the identity provider as group:NAME, separated by commas',
    fallback: '',
    parse: (text) => {
      const members = text.split(',').map((member) => member.trim())
      const form =
        /^(?:[A-Za-z0-9][A-Za-z0-9._@-]{0,63}|group:[^\u0000-\u001f\u007f-\u009f]{1,200})$/
      return members.every((member) => form.test(member)) ? members : undefined
    },
  } satisfies Setting<readonly string[]>,
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
  store: {
    variable: 'SVC_STORE',
    description:
      'Where repositories are stored: in the data directory, or in an S3 bucket. The data directory is then only a cache, and SVC_DATABASE_URL is needed.',
    accepts:
      'local, or s3://bucket/prefix?endpoint=https://host&region=name, where the prefix may be missing, and either the endpoint (for AWS) or the region (by default us-east-1)',
    fallback: 'local',
    unset: 'local',
    parse: parseStoreAddress,
    fault: storeAddressFault,
  } satisfies Setting<StoreAddress>,
  storeAccessKeyId: {
    variable: 'SVC_STORE_ACCESS_KEY_ID',
    description: 'Id of the access key for the bucket of SVC_STORE.',
    accepts: 'up to 128 letters, digits and characters of ._~+=:@-',
    fallback: '',
    parse: (text) => (/^[\w.~+=:@-]{1,128}$/.test(text) ? new Sensitive(text) : undefined),
    sensitive: true,
  } satisfies Setting<Sensitive<string>>,
  storeSecretAccessKey: {
    variable: 'SVC_STORE_SECRET_ACCESS_KEY',
    description: 'Secret of the access key for the bucket of SVC_STORE.',
    accepts: 'up to 256 printable ASCII characters without spaces',
    fallback: '',
    parse: (text) => (/^[\x21-\x7e]{1,256}$/.test(text) ? new Sensitive(text) : undefined),
    sensitive: true,
  } satisfies Setting<Sensitive<string>>,
  repositoryCacheBytes: {
    variable: 'SVC_REPOSITORY_CACHE_SIZE',
    description:
      'Size of the cache of repositories that a server with SVC_STORE has in its data directory. Default: the disk, except for twice SVC_FREE_SPACE_MIN.',
    fallback: '',
    ...size(64 * mib, 1024 * 1024 * gib),
  } satisfies Setting<number>,
  browseCacheBytes: {
    variable: 'SVC_BROWSE_CACHE_SIZE',
    description:
      'Memory for cached responses of the API about trees, commits and other objects. With 0 nothing is cached.',
    fallback: '64MiB',
    ...size(0, 1024 * gib),
  } satisfies Setting<number>,
  maxConcurrentBrowses: {
    variable: 'SVC_BROWSES_AT_ONCE',
    description:
      'Maximum number of Git processes that compute responses of the API about objects, at most three quarters of them for one user or repository. Default: 2 per core.',
    fallback: '',
    ...count(1, 10_000),
  } satisfies Setting<number>,
  maxConcurrentArchives: {
    variable: 'SVC_ARCHIVES_AT_ONCE',
    description:
      'Maximum number of archives that are sent over HTTP at the same time, at most three quarters of them for one user or repository. A limit of the same size applies to artifacts that are converted for download. Default: 1 per core.',
    fallback: '',
    ...count(1, 10_000),
  } satisfies Setting<number>,
  browseSeconds: {
    variable: 'SVC_BROWSE_SECONDS',
    description:
      'Maximum duration of a Git process that computes a response of the API about objects, except archives.',
    fallback: '10',
    ...seconds(1, 3600),
  } satisfies Setting<number>,
  pages: {
    variable: 'SVC_PAGES',
    description: 'Whether the service has web pages.',
    ...onOrOff,
    fallback: 'on',
  } satisfies Setting<boolean>,
  pagesCacheBytes: {
    variable: 'SVC_PAGES_CACHE',
    description: 'Memory for the cache of pages of code and history. 0 disables it.',
    fallback: '64MiB',
    ...size(0, 1024 * gib),
  } satisfies Setting<number>,
  webAnonymousRead: {
    variable: 'SVC_WEB_ANONYMOUS_READ',
    description:
      'Which pages of all repositories can be read without a login: none, those of the current code, or also history, diffs and searches, which cost more.',
    accepts: 'off, code or all',
    fallback: 'off',
    parse: (text) => (text === 'off' || text === 'code' || text === 'all' ? text : undefined),
  } satisfies Setting<'off' | 'code' | 'all'>,
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
  oidcIssuer: {
    variable: 'SVC_OIDC_ISSUER',
    description:
      'Issuer of the identity provider (OpenID Connect) at which people log in. Needs SVC_OIDC_CLIENT_ID.',
    accepts:
      'an https address without user, query or fragment; one with http only at localhost or a loopback address',
    fallback: '',
    parse: parseIssuer,
  } satisfies Setting<string>,
  oidcClientId: {
    variable: 'SVC_OIDC_CLIENT_ID',
    description: 'Id that the identity provider has given this service.',
    accepts: 'up to 255 printable ASCII characters without spaces',
    fallback: '',
    parse: (text) => (/^[\x21-\x7e]{1,255}$/.test(text) ? text : undefined),
  } satisfies Setting<string>,
  oidcClientSecret: {
    variable: 'SVC_OIDC_CLIENT_SECRET',
    description:
      'Secret that the identity provider has given this service. Default: none, for a public client.',
    accepts: 'up to 1000 printable ASCII characters without spaces',
    fallback: '',
    parse: (text) => (/^[\x21-\x7e]{1,1000}$/.test(text) ? new Sensitive(text) : undefined),
    sensitive: true,
  } satisfies Setting<Sensitive<string>>,
  oidcScopes: {
    variable: 'SVC_OIDC_SCOPES',
    description:
      'Scopes that are requested from the identity provider. Default: openid, profile, email and, where it is offered, offline_access.',
    accepts: 'openid and others, separated by spaces',
    fallback: '',
    parse: (text) =>
      /^[\x21-\x7e]+(?: [\x21-\x7e]+)*$/.test(text) && text.split(' ').includes('openid')
        ? text
        : undefined,
  } satisfies Setting<string>,
  oidcUsernameClaim: {
    variable: 'SVC_OIDC_USERNAME_CLAIM',
    description:
      'Claim of the identity provider with the username, which people must not be able to choose for themselves.',
    accepts: 'the name of a claim',
    fallback: 'preferred_username',
    parse: parseClaim,
  } satisfies Setting<string>,
  oidcGroupsClaim: {
    variable: 'SVC_OIDC_GROUPS_CLAIM',
    description: 'Claim of the identity provider with the groups of a person.',
    accepts: 'the name of a claim',
    fallback: 'groups',
    parse: parseClaim,
  } satisfies Setting<string>,
  oidcAllowedGroups: {
    variable: 'SVC_OIDC_ALLOWED_GROUPS',
    description:
      'Groups whose members may log in. Default: everybody whom the identity provider lets in.',
    accepts: 'groups, separated by commas',
    fallback: '',
    parse: parseGroups,
  } satisfies Setting<readonly string[]>,
  oidcAdminGroups: {
    variable: 'SVC_OIDC_ADMIN_GROUPS',
    description: 'Groups whose members may log in and are admins.',
    accepts: 'groups, separated by commas',
    fallback: '',
    parse: parseGroups,
  } satisfies Setting<readonly string[]>,
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
    fallback: '30',
    ...seconds(1, 600),
  } satisfies Setting<number>,
  requestsPerSecond: {
    variable: 'SVC_REQUESTS_PER_SECOND',
    description:
      'Sustained rate of API requests per user, and of requests without a token per address, in requests per second; of pages, a fifth of it per session.',
    fallback: '100',
    ...count(1, 1_000_000),
  } satisfies Setting<number>,
  requestBurst: {
    variable: 'SVC_REQUEST_BURST',
    description:
      'API requests that a user may make in one burst, and pages that a session may open.',
    fallback: '200',
    ...count(1, 1_000_000),
  } satisfies Setting<number>,
  badTokensPerMinute: {
    variable: 'SVC_BAD_TOKENS_PER_MINUTE',
    description:
      'Invalid tokens per minute that an address may send; valid tokens from the same address always work.',
    fallback: '300',
    ...count(1, 1_000_000),
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
    fallback: '5000',
    ...count(1, 100_000),
  } satisfies Setting<number>,
  lfsObjectMaxBytes: {
    variable: 'SVC_LFS_OBJECT_MAX',
    description: 'Maximum size of a Git LFS object.',
    fallback: '10GiB',
    ...size(kib, 1024 * gib),
  } satisfies Setting<number>,
  fetchRequestMaxBytes: {
    variable: 'SVC_FETCH_REQUEST_MAX',
    description:
      'Maximum size of a fetch request, after decompression. A fetch over SSH with a protocol before version 2 may have 16 times as much.',
    fallback: '10MiB',
    ...size(kib, gib),
  } satisfies Setting<number>,
  refsCacheBytes: {
    variable: 'SVC_REFS_CACHE',
    description: 'Size of the ref cache in each of the two processes that serve Git.',
    fallback: '64MiB',
    ...size(0, 64 * gib),
  } satisfies Setting<number>,
  defaultObjectFormat: {
    variable: 'SVC_DEFAULT_OBJECT_FORMAT',
    description:
      'Object format of a repository that is cloned while it is empty, or that gets its first commit through the API. A push to an empty repository decides for itself.',
    accepts: objectFormats.join(' or '),
    fallback: 'sha1',
    parse: (text) => objectFormats.find((format) => format === text),
  } satisfies Setting<ObjectFormat>,
  gitStallSeconds: {
    variable: 'SVC_GIT_STALL_SECONDS',
    description:
      'Time after which a Git request ends when its client stops in the middle of a transfer or, over SSH, no longer responds. A client that responds may take as long as it needs before a push, before the pack of a push, and between the rounds of a fetch.',
    fallback: '60',
    ...seconds(1, 86_400),
  } satisfies Setting<number>,
  maxConcurrentFetches: {
    variable: 'SVC_FETCHES_AT_ONCE',
    description:
      'Maximum number of concurrent fetches and clones that git packs, at most three quarters of them for one user or repository; stored responses do not count. Default: 4 per core.',
    fallback: '',
    ...count(1, 10_000),
  } satisfies Setting<number>,
  maxConcurrentFetchesPerRepository: {
    variable: 'SVC_REPOSITORY_FETCHES_AT_ONCE',
    description:
      'Maximum number of concurrent fetches and clones that git packs, per user and per repository.',
    fallback: '20',
    ...count(1, 10_000),
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
    fallback: '3600',
    ...seconds(1, 604_800),
  } satisfies Setting<number>,
  pushMemoryMaxBytes: {
    variable: 'SVC_PUSH_MEMORY_MAX',
    description: 'Maximum memory of each process of a push or an import.',
    fallback: '1GiB',
    ...size(64 * mib, 1024 * gib),
  } satisfies Setting<number>,
  gitMemoryMaxBytes: {
    variable: 'SVC_GIT_MEMORY_MAX',
    description:
      'Maximum memory of each Git process that serves a fetch, a clone or an archive, or reads a repository. Pushes, imports and maintenance have their own limits.',
    fallback: '2GiB',
    ...size(64 * mib, 1024 * gib),
  } satisfies Setting<number>,
  commitBodyMaxBytes: {
    variable: 'SVC_COMMIT_BODY_MAX',
    description:
      'Maximum size of the request that makes a commit through the API, with all contents. At most 4 requests larger than SVC_JSON_BODY_MAX are worked on at a time, 2 of one user, and each takes about six times its size in memory.',
    fallback: '16MiB',
    ...size(kib, 256 * mib),
  } satisfies Setting<number>,
  gitCpuMaxSeconds: {
    variable: 'SVC_GIT_CPU_SECONDS',
    description:
      'Maximum CPU time of each Git process that serves a request. The limit for imports, maintenance and checks is one day.',
    fallback: '1800',
    ...seconds(1, 604_800),
  } satisfies Setting<number>,
  maxConcurrentPushes: {
    variable: 'SVC_PUSHES_AT_ONCE',
    description:
      'Maximum number of concurrent pushes, at most three quarters of them for one user or repository.',
    fallback: '64',
    ...count(1, 10_000),
  } satisfies Setting<number>,
  maxConcurrentPushesPerRepository: {
    variable: 'SVC_REPOSITORY_PUSHES_AT_ONCE',
    description: 'Maximum number of concurrent pushes per user and per repository.',
    fallback: '20',
    ...count(1, 10_000),
  } satisfies Setting<number>,
  pushWaitSeconds: {
    variable: 'SVC_PUSH_WAIT_SECONDS',
    description: 'How long a push with the option `wait` waits for its workflow runs.',
    fallback: '600',
    ...seconds(1, 3000),
  } satisfies Setting<number>,
  maxWaitingPushes: {
    variable: 'SVC_WAITING_PUSHES',
    description:
      'Maximum number of pushes that wait for their workflow runs at a time, at most 4 of one user and 4 to one repository. Further ones are refused.',
    fallback: '32',
    ...count(0, 1000),
  } satisfies Setting<number>,
  gitWaiting: {
    variable: 'SVC_GIT_WAITING',
    description:
      'Maximum number of queued fetches, clones and pushes. When the queue is full, the newest request of the user with the most queued requests gets 503.',
    fallback: '100',
    ...count(0, 100_000),
  } satisfies Setting<number>,
  gitWaitSeconds: {
    variable: 'SVC_GIT_WAIT_SECONDS',
    description: 'Time after which a queued fetch, clone or push gets 503.',
    fallback: '30',
    ...seconds(1, 3600),
  } satisfies Setting<number>,
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
    description: 'Maximum size of an imported repository, without LFS objects.',
    fallback: '5GiB',
    ...size(kib, 1024 * gib),
  } satisfies Setting<number>,
  importSeconds: {
    variable: 'SVC_IMPORT_SECONDS',
    description: 'Maximum duration of an import.',
    fallback: '1800',
    ...seconds(1, 86_400),
  } satisfies Setting<number>,
  importStallSeconds: {
    variable: 'SVC_IMPORT_STALL_SECONDS',
    description: 'Time after which an import that makes no progress fails.',
    fallback: '30',
    ...seconds(1, 3600),
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
    fallback: '4',
    ...count(1, 1000),
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
  sshPublicPort: {
    variable: 'SVC_SSH_PUBLIC_PORT',
    description:
      'Port in the clone addresses for SSH, for a balancer or container that maps it. Default: the port on which SSH listens.',
    fallback: '',
    ...count(1, 65_535),
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
    fallback: '15',
    ...seconds(1, 600),
  } satisfies Setting<number>,
  sshLoginTries: {
    variable: 'SVC_SSH_LOGIN_TRIES',
    description: 'Maximum number of rejected keys per SSH connection.',
    fallback: '6',
    ...count(1, 40),
  } satisfies Setting<number>,
  sshConnections: {
    variable: 'SVC_SSH_CONNECTIONS',
    description:
      'Maximum number of concurrent SSH connections, at most a quarter of them for one user.',
    fallback: '1000',
    ...count(1, 100_000),
  } satisfies Setting<number>,
  sshUnauthenticated: {
    variable: 'SVC_SSH_UNAUTHENTICATED',
    description:
      'Maximum number of SSH clients that authenticate concurrently. Beyond it, connections of the addresses with the most clients, and connections older than a second, are closed.',
    fallback: '200',
    ...count(1, 100_000),
  } satisfies Setting<number>,
  sshUnauthenticatedPerAddress: {
    variable: 'SVC_SSH_UNAUTHENTICATED_PER_ADDRESS',
    description:
      'Maximum number of SSH clients of one address that authenticate concurrently. Further clients wait for up to 3 seconds.',
    fallback: '20',
    ...count(1, 100_000),
  } satisfies Setting<number>,
  sshChannels: {
    variable: 'SVC_SSH_CHANNELS',
    description: 'Maximum number of open channels, and so of commands, per SSH connection.',
    fallback: '10',
    ...count(1, 1000),
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
    fallback: '600',
    ...seconds(1, 86_400),
  } satisfies Setting<number>,
  outboundAllow: {
    variable: 'SVC_OUTBOUND_ALLOW',
    description:
      'Addresses that imports, webhooks and reading keys of issuers may connect to. Default: external; also loopback when HTTP, SSH and SVC_BASE_URL use only loopback addresses.',
    accepts: allowedForm,
    fallback: '',
    parse: parseAllowed,
    fault: allowedFault,
  } satisfies Setting<Allowed>,
  runner: {
    variable: 'SVC_RUNNER',
    description:
      'Whether the service starts its own runner for workflow runs. Other runners are started with `svc runner`.',
    ...onOrOff,
    fallback: 'on',
  } satisfies Setting<boolean>,
  runnerJobs: {
    variable: 'SVC_RUNNER_JOBS',
    description: 'Maximum number of concurrent jobs of the runner. Default: 1 per core.',
    fallback: '',
    ...count(1, 1000),
  } satisfies Setting<number>,
  sandbox: {
    variable: 'SVC_SANDBOX',
    description:
      'With require, workflow steps run only in a bubblewrap sandbox. With auto, where bubblewrap does not work, a service that runs as root runs steps without a sandbox and each run says so; as any other user it rejects runs, because steps could read its keys. With none, steps have no sandbox and, unless the service runs as root, its permissions.',
    accepts: 'auto, require or none',
    fallback: 'auto',
    parse: (text) => (text === 'auto' || text === 'require' || text === 'none' ? text : undefined),
  } satisfies Setting<'auto' | 'require' | 'none'>,
  sandboxNetwork: {
    variable: 'SVC_SANDBOX_NETWORK',
    description:
      "Network of workflow steps: none, or full access to the network of the runner's machine, including its loopback addresses. With none, SVC_STEP_HOSTS can allow hosts.",
    accepts: 'none or full',
    fallback: 'none',
    parse: (text) => (text === 'none' || text === 'full' ? text : undefined),
  } satisfies Setting<'none' | 'full'>,
  stepHosts: {
    variable: 'SVC_STEP_HOSTS',
    description:
      'Hosts that workflow steps may reach, through a proxy of the runner: the most that `network` of a workflow can choose from, and what a workflow without it gets. A name whose address is not public is refused unless that address, or the word for it (private or loopback), is listed, too.',
    accepts: listedHostsForm,
    fallback: 'none',
    unset: 'none',
    parse: parseListedHosts,
    fault: listedHostsFault,
  } satisfies Setting<ListedHosts>,
  sandboxPaths: {
    variable: 'SVC_SANDBOX_PATHS',
    description: 'Additional paths that workflow steps may read, for tools outside /usr and /opt.',
    accepts: 'absolute paths, separated by colons',
    fallback: '',
    parse: parsePaths,
  } satisfies Setting<string[]>,
  tools: {
    variable: 'SVC_TOOLS',
    description:
      "Folders with tools by version, which steps such as actions/setup-node use, laid out as the tool cache of GitHub's runners: <tool>/<version>/<architecture>, with <architecture>.complete beside it. Steps can read them.",
    accepts: 'absolute paths, separated by colons',
    fallback: '',
    parse: parsePaths,
  } satisfies Setting<string[]>,
  stepEnv: {
    variable: 'SVC_STEP_ENV',
    description:
      "Variables that all workflow steps of the runner have, unless `env` of a workflow overrides them: for a package mirror, or a certificate authority of one's own.",
    accepts:
      'a JSON object of strings, such as {"PIP_INDEX_URL":"https://pypi.example.com/simple"}, without names that begin with GITHUB_, RUNNER_, ACTIONS_ or SVC_',
    fallback: '',
    parse: parseStepEnv,
  } satisfies Setting<Record<string, string>>,
  stepMemoryMaxBytes: {
    variable: 'SVC_STEP_MEMORY_MAX',
    description:
      'Maximum memory of all processes of a workflow step together, enforced by a control group where one can be created.',
    fallback: '2GiB',
    ...size(16 * mib, 1024 * gib),
  } satisfies Setting<number>,
  stepProcesses: {
    variable: 'SVC_STEP_PROCESSES',
    description: 'Maximum number of processes and threads of a workflow step.',
    fallback: '512',
    ...count(16, 100_000),
  } satisfies Setting<number>,
  failedWorkspaceSeconds: {
    variable: 'SVC_FAILED_WORKSPACE_SECONDS',
    description:
      'Seconds after a failed run for which its runner keeps the workspaces of failed jobs, for `svc runs shell`; 0 for none. A runner keeps at most 3, and removes them when it ends or the disk has little space.',
    fallback: '900',
    ...seconds(0, 86_400),
  } satisfies Setting<number>,
  stepFileMaxBytes: {
    variable: 'SVC_STEP_FILE_MAX',
    description: 'Maximum size of a file that a workflow step writes.',
    fallback: '4GiB',
    ...size(mib, 1024 * gib),
  } satisfies Setting<number>,
  stepOutputMaxBytes: {
    variable: 'SVC_STEP_OUTPUT_MAX',
    description:
      'Maximum stored output of a workflow step; of longer output, the start and the end are stored.',
    fallback: '1MiB',
    ...size(16 * kib, 64 * mib),
  } satisfies Setting<number>,
  stepSeconds: {
    variable: 'SVC_STEP_SECONDS',
    description: 'Maximum duration of a workflow step; `timeout-minutes` can only shorten it.',
    fallback: '1800',
    ...seconds(1, 604_800),
  } satisfies Setting<number>,
  runSeconds: {
    variable: 'SVC_RUN_SECONDS',
    description: 'Maximum duration of a workflow run.',
    fallback: '3600',
    ...seconds(1, 604_800),
  } satisfies Setting<number>,
  runsKeptDays: {
    variable: 'SVC_RUNS_KEPT_DAYS',
    description: 'Days for which completed runs and their output are kept.',
    fallback: '90',
    ...days(1, 3650),
  } satisfies Setting<number>,
  artifactMaxBytes: {
    variable: 'SVC_ARTIFACT_MAX',
    description: 'Maximum size of an artifact of a workflow run, compressed.',
    fallback: '2GiB',
    ...size(kib, 1024 * gib),
  } satisfies Setting<number>,
  artifactsRepositoryMaxBytes: {
    variable: 'SVC_ARTIFACTS_REPOSITORY_MAX',
    description: 'Maximum size of all artifacts of a repository; beyond it, uploads are rejected.',
    fallback: '10GiB',
    ...size(kib, 1024 * 1024 * gib),
  } satisfies Setting<number>,
  artifactDays: {
    variable: 'SVC_ARTIFACT_DAYS',
    description: 'Days for which an artifact is kept, unless its workflow says otherwise.',
    fallback: '30',
    ...days(1, 3650),
  } satisfies Setting<number>,
  artifactMaxDays: {
    variable: 'SVC_ARTIFACT_DAYS_MAX',
    description: 'Maximum number of days for which a workflow can keep an artifact.',
    fallback: '90',
    ...days(1, 3650),
  } satisfies Setting<number>,
  cacheMaxBytes: {
    variable: 'SVC_CACHE_MAX',
    description: 'Maximum size of one cache of workflow runs, compressed.',
    fallback: '2GiB',
    ...size(kib, 1024 * gib),
  } satisfies Setting<number>,
  cachesRepositoryMaxBytes: {
    variable: 'SVC_CACHES_REPOSITORY_MAX',
    description:
      'Maximum size of all caches of a repository; beyond it, the least recently used are removed.',
    fallback: '5GiB',
    ...size(kib, 1024 * 1024 * gib),
  } satisfies Setting<number>,
  cachesMaxBytes: {
    variable: 'SVC_CACHES_MAX',
    description:
      'Maximum size of the caches of all repositories; beyond it, the least recently used are removed.',
    fallback: '20GiB',
    ...size(kib, 1024 * 1024 * gib),
  } satisfies Setting<number>,
  cacheDays: {
    variable: 'SVC_CACHE_DAYS',
    description: 'Days after which a cache that no run uses is removed.',
    fallback: '7',
    ...days(1, 3650),
  } satisfies Setting<number>,
  webhookRetrySchedule: {
    variable: 'SVC_WEBHOOK_RETRY_SCHEDULE',
    description:
      'Delay before each attempt of a webhook delivery. The first attempt is always made at once; the other delays vary by 10%.',
    accepts: 'up to 30 whole numbers of seconds from 0 to 604800, separated by commas',
    fallback: '0,5,300,1800,7200,18000,36000,36000',
    parse: parseSchedule,
  } satisfies Setting<readonly [number, ...number[]]>,
  deliveriesKeptDays: {
    variable: 'SVC_DELIVERIES_KEPT_DAYS',
    description: 'Days for which webhook deliveries and their attempts are kept.',
    fallback: '90',
    ...days(1, 3650),
  } satisfies Setting<number>,
  eventsKeptDays: {
    variable: 'SVC_EVENTS_KEPT_DAYS',
    description: 'Days for which events and the push journal are kept.',
    fallback: '90',
    ...days(1, 3650),
  } satisfies Setting<number>,
  auditKeptDays: {
    variable: 'SVC_AUDIT_KEPT_DAYS',
    description: 'Days for which entries of the audit log are kept.',
    fallback: '365',
    ...days(1, 36_500),
  } satisfies Setting<number>,
  deletedRetentionDays: {
    variable: 'SVC_DELETED_RETENTION_DAYS',
    description:
      'Days for which a deleted repository can be restored; 0 removes it at once. When the disk is nearly full, the oldest are removed earlier.',
    fallback: '7',
    ...days(0, 3650),
  } satisfies Setting<number>,
  undoDays: {
    variable: 'SVC_UNDO_DAYS',
    description:
      'Days for which overwritten and deleted commits are kept, so that the push can be undone.',
    fallback: '30',
    ...days(0, 3650),
  } satisfies Setting<number>,
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
    fallback: '30',
    ...seconds(0, 3600),
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
