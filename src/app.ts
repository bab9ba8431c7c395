import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Access } from '#access/access-watch.ts'
import type { Principal } from '#access/principal.ts'
import { createAccessCheck, createRefresh } from '#api/access-check/current-access.ts'
import type { Clock } from '#base/clock.ts'
import { createFaultPoint, type FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import { createLookupLimiter } from '#base/outbound/name-lookups.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import { createAppOutbound } from '#config/app-outbound.ts'
import { assertDataDirectory, assertNotServed } from '#config/data-directory.ts'
import { createFreeSpace, type FreeSpace } from '#config/free-space.ts'
import type { Settings } from '#config/settings.ts'
import { type Database, openDatabase } from '#database/database.ts'
import { createSingleNode, type Nodes } from '#database/nodes/nodes.ts'
import { assertNoneRuns } from '#database/nodes/running-nodes.ts'
import { openSharedNodes } from '#database/nodes/shared-nodes.ts'
import type { Db } from '#database/schema.ts'
import { type AuditLog, createAuditLog } from '#events/audit/audit-log.ts'
import { recordEvents } from '#events/audit/record.ts'
import { createRecordRefusal } from '#events/audit/record-refusal.ts'
import { createEventNotifier, type EventNotifier } from '#events/event-notifier.ts'
import { createPublish, type Publish } from '#events/events.ts'
import { createGit, type Git } from '#git/process/git-process.ts'
import type { SpawnHelper } from '#git/process/spawn-helper.ts'
import { createLeakGuard, type LeakGuard } from '#git-server/leak-guard/leak-guard.ts'
import { toSshUrl } from '#git-server/ssh/ssh-process.ts'
import { type CliLogins, createCliLogins } from '#identity/logins/cli-logins.ts'
import { openLogins } from '#identity/logins/open-logins.ts'
import type { Logins } from '#identity/logins/provider-logins.ts'
import { createSessions, type Sessions } from '#identity/sessions/sessions.ts'
import { createSshKeys, type SshKeys } from '#identity/ssh-keys/ssh-keys.ts'
import { createTokens, type Tokens } from '#identity/tokens/tokens.ts'
import { createTrustRules, type TrustRules } from '#identity/trust-rules/trust-rules.ts'
import { createWorkloadTokens, type WorkloadTokens } from '#identity/trust-rules/workload-tokens.ts'
import { countUsersLike, lockEnabledUser } from '#identity/user-store.ts'
import { createUsers, type Users } from '#identity/users/users.ts'
import {
  createMaintenanceRequests,
  type MaintenanceRequests,
} from '#ops/maintenance/maintenance-requests.ts'
import { maintainImported } from '#ops/maintenance/maintenance-store.ts'
import {
  createDeletedRepositories,
  type DeletedRepositories,
} from '#repositories/deleted-repositories.ts'
import { createDirectories, type Directories } from '#repositories/directories/directories.ts'
import { createImportSources } from '#repositories/imports/import-sources.ts'
import { createImports, type Imports } from '#repositories/imports/imports.ts'
import { assertSameInstance, assertSameStore, assertUsedDatabase } from '#repositories/instance.ts'
import { createLfsLocks, type LfsLocks } from '#repositories/lfs-locks.ts'
import { createLfsObjects, type LfsObjects } from '#repositories/lfs-objects.ts'
import {
  createNamespaceUsage,
  type NamespaceUsage,
} from '#repositories/namespaces/namespace-usage.ts'
import { createNamespaces, type Namespaces } from '#repositories/namespaces/namespaces.ts'
import { createRepositories, type Repositories } from '#repositories/repositories.ts'
import { type Collaborators, createCollaborators } from '#repositories/rights/collaborators.ts'
import { createProtections, type Protections } from '#repositories/rights/protections.ts'
import { createLocalStore } from '#repositories/store/local-store.ts'
import type { Store } from '#repositories/store/store.ts'
import { assertKeysOpen } from '#secrets/key-check.ts'
import { createRotation, type Rotation } from '#secrets/rotation.ts'
import { createSecrets, type Secrets } from '#secrets/secrets.ts'
import { openVaultLater } from '#secrets/vault/open-vault.ts'
import { readHostKeyFingerprint as readHostKey } from '#ssh/host-key.ts'
import { createDisableWebhook } from '#webhooks/disabling.ts'
import { enqueueDeliveries } from '#webhooks/enqueue-store.ts'
import { createWebhooks, type Webhooks } from '#webhooks/webhooks.ts'
import { createIdTokens, type IdTokens } from '#workflows/id-tokens/id-tokens.ts'
import { createWorkflows, type Workflows } from '#workflows/workflows.ts'
import { createOffline, type Offline } from './offline.ts'

export type Options = {
  settings: Settings
  log: Log
  /** The search path for git and the programs that its hooks use, in the form of PATH. */
  path: string
  version: string
  /** The size of Node's thread pool; by default Node's own. */
  threads?: number
  /** Starts git processes in place of this process. */
  spawnHelper?: SpawnHelper
}

/** The parts that need no database, for commands that create a data directory or have none. */
export type AppTools = {
  git: Git
  directories: Directories
  faultPoint: FaultPoint
  database: DatabaseOptions
  /** Where repositories are without a shared store; else the same directories. */
  localDirectories: Directories
  /** Whether the directories are caches of a shared store. */
  isCache: boolean
  log: Log
  version: string
}

/** Everything but the servers. Commands use it whether a server runs or not. */
export type App = AsyncDisposable &
  AppTools &
  Offline & {
    db: Database
    publish: Publish
    notifier: EventNotifier
    clock: Clock
    /** The public addresses, which the server corrects when it listens; `ssh` is null when SSH is off. */
    address: { http: string; ssh: string | null }
    auditLog: AuditLog
    users: Users
    tokens: Tokens
    sshKeys: SshKeys
    trustRules: TrustRules
    workloads: WorkloadTokens
    store: Store
    leakGuard: LeakGuard
    repositories: Repositories
    lfsObjects: LfsObjects
    lfsLocks: LfsLocks
    deletedRepositories: DeletedRepositories
    namespaces: Namespaces
    namespaceUsage: NamespaceUsage
    protections: Protections
    collaborators: Collaborators
    sessions: Sessions
    /** Logins at the identity provider, if there is one. */
    logins: Logins | undefined
    cliLogins: CliLogins
    secrets: Secrets
    rotation: Rotation
    idTokens: IdTokens
    workflows: Workflows
    webhooks: Webhooks
    imports: Imports
    outbound: Outbound
    freeSpace: FreeSpace
    maintenanceRequests: MaintenanceRequests
    nodes: Nodes
    /** Reads a principal again; undefined when its token or key was deleted or has expired. */
    refresh: (principal: Principal) => Promise<Principal | undefined>
    /** Throws the Problem that a new request would get now. */
    recheckAccess: (access: Access) => Promise<void>
    /** Throws unless the encryption keys can decrypt every secret. */
    assertKeysOpen: () => Promise<void>
  }

type DatabaseOptions = Pick<Parameters<typeof openDatabase>[0], 'dataDir' | 'url' | 'log'>

export function createTools({ settings, log, path, version, spawnHelper }: Options): AppTools {
  const { dataDir, databaseUrl } = settings
  const git = createGit({ settings, owner: dataDir, path, spawnHelper })
  const faultPoint = createFaultPoint(settings.faultPoint)
  const isCache = settings.store !== undefined
  const localDirectories = createDirectories({ dataDir, git, faultPoint })
  const directories = isCache
    ? createDirectories({ dataDir, isCache, git, faultPoint })
    : localDirectories
  const database = { dataDir, url: databaseUrl?.reveal(), log }
  return { git, directories, localDirectories, faultPoint, database, isCache, log, version }
}

export async function openApp(options: Options, beforeMigration?: () => void): Promise<App> {
  const { settings, log } = options
  const { dataDir } = settings
  const tools = createTools(options)
  const { git } = tools
  let onCommit = () => {}
  const db = await openAppDatabase({
    ...tools.database,
    onCommit: () => onCommit(),
    beforeMigration,
  })
  const nodes = await openNodes({ db, settings, log })
  const { clock } = nodes
  const notifier = createEventNotifier({ db, nodes })
  onCommit = notifier.committed
  const leaseOwner = nodes.own
  const freeSpace = createFreeSpace({
    ...{ folder: dataDir, minBytes: settings.freeSpaceMinBytes, log },
    reclaim: (bytes) => store.reclaim(bytes),
  })
  const parts = { ...tools, settings, db, nodes, notifier, clock, freeSpace, leaseOwner }
  const store: Store = await openStore({ ...parts, node: nodes.own })
  const address = addressBeforeListening(settings)
  const namespaceUsage = createNamespaceUsage({ db, clock })
  const publish = createAppPublish(settings, namespaceUsage)
  const vault = openVaultLater(settings)
  // What nearly all of the following take.
  const kit = {
    ...parts,
    store,
    publish,
    vault,
    baseUrl: () => address.http,
    sshUrl: () => address.ssh,
    refresh: (principal: Principal) => refresh(principal),
    lockEnabledUser,
    recordRefusal: createRecordRefusal({ db, clock }),
    belongings: {
      endRuns: (id: string) => workflows.endRuns(id),
      refreshWebhooks: (tx: Db, id: string) => webhooks.refreshRepository(tx, id),
      cutOffWebhooks: (id: string) => webhooks.cutOffRepository(id),
      purgeWebhooks: (id: string) => webhooks.purgeRepository(id),
    },
  }
  const deletedRepositories = createDeletedRepositories(kit)
  const repositories = createRepositories({ ...kit, deletedRepositories })
  const lfsObjects = createLfsObjects(kit)
  const lfsLocks = createLfsLocks(kit)
  const tokens = createTokens({ ...kit, repositories })
  const sshKeys = createSshKeys({ ...kit, repositories })
  const usernamesAmong = async (usernames: string[]) => [
    ...(await tokens.usernamesAmong(usernames)),
    ...(await sshKeys.usernamesAmong(usernames)),
  ]
  const lookups = createLookupLimiter(options.threads)
  const outboundTo = (host?: string) => createAppOutbound(settings, host, lookups)
  const outbound = outboundTo()
  const namespaces = createNamespaces({ ...kit, usernamesAmong, countUsersLike })
  const trustRules = createTrustRules({ ...kit, outbound, repositories, namespaces })
  const workloads = createWorkloadTokens({ ...kit, outbound, repositories, trustRules })
  const maintenanceRequests = createMaintenanceRequests(kit)
  const protections = createProtections(kit)
  const collaborators = createCollaborators({ ...kit, usernamesAmong })
  const secrets = createSecrets(kit)
  const rotation = createRotation({ ...kit, disableWebhook: createDisableWebhook(publish) })
  const idTokens = createIdTokens(kit)
  const opening = { ...kit, repositories, openSecrets: secrets.open }
  const workflows = createWorkflows({ ...opening, idTokens })
  const webhooks = createWebhooks({
    ...opening,
    namespaces,
    outbound,
    describeRun: workflows.describeRun,
    directoryOf: store.open,
  })

  const refresh = createRefresh({ tokens, sshKeys, workflows, workloads })
  const sessions = createSessions(kit)
  const cliLogins = createCliLogins({ ...kit, tokens })
  const logins = openLogins({ ...kit, sessions, outbound, outboundTo })
  const recheckAccess = createAccessCheck({ refresh, workflows, repositories })
  const sources = createImportSources({
    git,
    dataDir,
    localRoots: settings.importLocalRoots ?? [],
    trustedHosts: settings.importKnownHostsFile,
    outbound,
  })
  const imports = createImports({ ...kit, sources, repositories, lfsObjects })
  const offline = createOffline(kit)

  return {
    ...tools,
    ...offline,
    db,
    publish,
    notifier,
    clock,
    address,
    auditLog: createAuditLog({ db, namesOf: repositories.namesOf }),
    users: createUsers({ ...kit, repositories, collaborators, trustRules }),
    tokens,
    sshKeys,
    trustRules,
    workloads,
    store,
    leakGuard: createLeakGuard({
      db,
      isLive: async (token) =>
        (await tokens.isLive(token)) || (await workloads.authenticate(token)) !== undefined,
    }),
    repositories,
    lfsObjects,
    lfsLocks,
    deletedRepositories,
    namespaces,
    namespaceUsage,
    protections,
    collaborators,
    sessions,
    logins,
    cliLogins,
    secrets,
    rotation,
    idTokens,
    workflows,
    webhooks,
    imports,
    outbound,
    freeSpace,
    refresh,
    recheckAccess,
    maintenanceRequests,
    nodes,

    assertKeysOpen: async () => assertKeysOpen(db, { vault: await vault(), settings, log }),

    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]()
      await db.destroy()
    },
  }
}

/** Opens the app on an existing data directory, for commands. */
export async function openExistingApp(options: Options): Promise<App> {
  const { dataDir } = options.settings
  await assertDataDirectory(dataDir)
  await using opening = new AsyncDisposableStack()
  const app = opening.use(await openApp(options, () => assertNotServed(dataDir)))
  await assertSameInstance({ db: app.db, dataDir, hasData: true, isShared: app.isCache })
  // The other way round, `svc store adopt` has work to do.
  if (!app.isCache) await assertSameStore(app.db, false)
  opening.move()
  return app
}

async function openAppDatabase(options: Parameters<typeof openDatabase>[0]): Promise<Database> {
  const { dataDir, url, beforeMigration } = options
  const assertUsed = () => assertUsedDatabase(dataDir)
  try {
    if (url === undefined && !existsSync(join(dataDir, 'svc.db'))) assertUsed()
    return await openDatabase({
      ...options,
      async beforeMigration(pending) {
        if (pending.version === 0) assertUsed()
        else if (pending.isChange) {
          if (url !== undefined) await assertNoneRuns(pending, dataDir)
          await beforeMigration?.(pending)
        }
      },
    })
  } catch (error) {
    const which = url ? 'SVC_DATABASE_URL: the database' : `The database ${dataDir}/svc.db`
    const reason = error instanceof Error ? error.message : error
    throw new Error(`${which} cannot be opened: ${reason}`, { cause: error })
  }
}

/** The public addresses, as far as they are known before the server listens. */
function addressBeforeListening(settings: Settings): App['address'] {
  const { host, port, sshHost, sshPort } = settings
  return {
    http: settings.baseUrl ?? `http://${host}:${port}`,
    ssh: sshPort === 'off' ? null : toSshUrl(settings, { host: sshHost, port: sshPort }),
  }
}

function createAppPublish(
  { maintenancePushes }: Settings,
  { countEvents }: Pick<NamespaceUsage, 'countEvents'>,
): Publish {
  const isAutomatic = maintenancePushes !== 'off'
  return createPublish([
    recordEvents,
    enqueueDeliveries,
    countEvents,
    ...(isAutomatic ? [maintainImported] : []),
  ])
}

async function openNodes({ db, settings, log }: Pick<App, 'db' | 'log'> & { settings: Settings }) {
  const { dataDir, databaseUrl, store } = settings
  // Only one process at a time does the work of a server on a data directory.
  if (store === undefined || databaseUrl === undefined) {
    return createSingleNode(`${hostname()}:${dataDir}`)
  }
  return openSharedNodes({ db, settings, url: databaseUrl.reveal(), readHostKey, log })
}

type StoreParts = Pick<App, 'db' | 'git' | 'directories' | 'freeSpace' | 'faultPoint' | 'log'> & {
  node: string
  settings: Settings
}

async function openStore({ settings, ...parts }: StoreParts): Promise<Store> {
  if (settings.store === undefined) return createLocalStore({ ...parts.directories, ...parts })
  // Loaded on demand to save memory and start-up time.
  const { openSharedStore } = await import('#repositories/store/open-shared-store.ts')
  return openSharedStore({ ...parts, settings })
}
