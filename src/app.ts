import { lookup } from 'node:dns/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Principal } from './access/principal.ts'
import { systemClock } from './base/clock.ts'
import { createFaultPoint } from './base/fault-points.ts'
import { holdLock } from './base/lock-file.ts'
import type { Log } from './base/log.ts'
import {
  assertDataDirectory,
  isLocked,
  lock,
  prepareDataDirectory,
} from './config/data-directory.ts'
import { createFreeSpace } from './config/free-space.ts'
import type { Settings } from './config/settings.ts'
import { openDatabase } from './database/database.ts'
import { createGit } from './git/git-process.ts'
import { assertHooks } from './git/hook-channel.ts'
import { endOrphans } from './git/orphans.ts'
import { assertGitVersion } from './git/version.ts'
import { createGitEngine } from './git-server/git-engine.ts'
import { gitRoutes } from './git-server/git-routes.ts'
import { createGitTurns } from './git-server/git-turns.ts'
import { createHttpDoor } from './git-server/http-door.ts'
import type { Operation } from './git-server/operations.ts'
import { createPushes } from './git-server/pushes.ts'
import { createSshBackend } from './git-server/ssh-backend.ts'
import { sshUser } from './git-server/ssh-door.ts'
import { sshOwner, startSshProcess } from './git-server/ssh-process.ts'
import { reachable, toSshUrl } from './git-server/ssh-url.ts'
import { withPublicRoutes } from './http/public-routes.ts'
import { createHttpServer } from './http/server.ts'
import { createMaintenance } from './maintenance/maintenance.ts'
import { startMaintenanceLoop } from './maintenance/maintenance-loop.ts'
import { createMaintenanceRequests } from './maintenance/maintenance-requests.ts'
import { startSweeping } from './maintenance/sweeping.ts'
import { addGauges } from './metrics/gauges.ts'
import { createMetricsLater } from './metrics/later.ts'
import { metricsRoutes } from './metrics/metrics-routes.ts'
import { defaultAllowed } from './outbound/allowed-ranges.ts'
import { createOutbound } from './outbound/outbound.ts'
import { createCollaborators } from './repositories/collaborators.ts'
import { createDirectories } from './repositories/directories.ts'
import { importOwner } from './repositories/import-job.ts'
import { importRoutes } from './repositories/import-routes.ts'
import { createImportSources } from './repositories/import-sources.ts'
import { createImports } from './repositories/imports.ts'
import { assertSameInstance } from './repositories/instance.ts'
import { createProtections } from './repositories/protections.ts'
import { createRepositories } from './repositories/repositories.ts'
import { repositoryRoutes } from './repositories/repository-routes.ts'
import { createTidying } from './repositories/tidying.ts'
import { assertKeysOpen } from './secrets/key-check.ts'
import { createRotation } from './secrets/rotation.ts'
import { secretRoutes } from './secrets/secret-routes.ts'
import { createSecrets } from './secrets/secrets.ts'
import { sshKeyRoutes } from './ssh-keys/ssh-key-routes.ts'
import { createSshKeys } from './ssh-keys/ssh-keys.ts'
import { tokenRoutes } from './tokens/token-routes.ts'
import { createTokens } from './tokens/tokens.ts'
import { openVaultLater } from './vault/open-vault.ts'
import { createRunnerProcess } from './workflows/runner-process.ts'
import { tellIsolation } from './workflows/tell-isolation.ts'
import { createWorkflows } from './workflows/workflows.ts'

export type App = Awaited<ReturnType<typeof openApp>>

type Options = {
  settings: Settings
  log: Log
  /** Where programs are looked for: git, and what git's hooks use. */
  path: string
  /** The environment in which further processes of the program itself start. */
  environment: Record<string, string | undefined>
  version: string
}

// Of the time for a stop; in the rest, an import that is given up is cleared away, and whoever waits for it told.
const shareOfImports = 0.9
const shareOfRunner = 0.3
const lockWaitMs = 5000
// Whoever only looks whether a server runs holds the lock for less than this: see isHeld.
const serverLockWaitMs = 100
// Leftovers of a crash are cleared before the first answer when that is quick, else in the background.
const tidyBeforeAnswerMs = 300

/** What needs no database: what commands work with that make a data directory, or have none. */
export function createTools({ settings, log, path, version }: Options) {
  const { dataDir, databaseUrl } = settings
  const git = createGit({ ...settings, owner: dataDir, path })
  const faultPoint = createFaultPoint(settings.faultPoint)
  const directories = createDirectories({ dataDir, git, faultPoint })
  const database = { dataDir, url: databaseUrl?.reveal(), log }
  return { git, directories, faultPoint, database, log, version }
}

export type Tools = ReturnType<typeof createTools>

/** Everything but the servers: what the command line works with, whether a server runs or not. */
async function openApp(options: Options) {
  const { settings, log } = options
  const { dataDir, databaseUrl } = settings
  const tools = createTools(options)
  const { git, directories, faultPoint } = tools
  const db = await openDatabase(tools.database).catch((error) => {
    const which = databaseUrl ? 'SVC_DATABASE_URL: the database' : `The database ${dataDir}/svc.db`
    throw new Error(`${which} cannot be opened: ${error.message}`, { cause: error })
  })
  const clock = systemClock
  const { sshHost, sshPort } = settings
  const address = {
    http: settings.baseUrl ?? `http://${settings.host}:${settings.port}`,
    ssh: sshPort === 'off' ? null : toSshUrl(settings, { host: sshHost, port: sshPort }),
  }
  const tokens = createTokens({ db, clock, log })
  const sshKeys = createSshKeys({ db, clock, log })
  const repositories = createRepositories({
    db,
    directories,
    clock,
    faultPoint,
    beforeRemove: (id) => workflows.endRuns(id),
    baseUrl: () => address.http,
    sshUrl: () => address.ssh,
  })
  const freeSpace = createFreeSpace({ folder: dataDir, least: settings.freeSpaceLeast })
  const maintenanceRequests = createMaintenanceRequests({ db, clock })
  // One process at a time does a server's work, so that what this name holds from before is its own.
  const holder = `${hostname()}:${dataDir}`
  const work = { db, git, directories, freeSpace, settings, clock, faultPoint, log, holder }
  const protections = createProtections({ db, clock })
  const collaborators = createCollaborators({ db, clock })
  const vault = openVaultLater(settings)
  const secrets = createSecrets({ db, clock, vault })
  const rotation = createRotation({ db, clock, vault, faultPoint })
  const workflows = createWorkflows({
    db,
    git,
    repositories,
    openSecrets: secrets.open,
    pathOf: directories.pathOf,
    baseUrl: () => address.http,
    settings,
    clock,
    faultPoint,
    log,
    holder,
  })
  const outbound = createOutbound({
    allow: settings.outboundAllow ?? defaultAllowed(settings),
    lookup: (name) => lookup(name, { all: true, order: 'verbatim' }),
  })

  const refresh = (principal: Principal) =>
    (principal.kind === 'ssh-key' ? sshKeys : tokens).refresh(principal)
  const sources = createImportSources({
    git,
    dataDir,
    localRoots: settings.importLocalRoots ?? [],
    outbound,
  })
  const imports = createImports({
    db,
    git,
    directories,
    sources,
    freeSpace,
    repositories,
    refresh,
    clock,
    log,
    settings,
    faultPoint,
  })

  return {
    ...tools,
    db,
    clock,
    address,
    tokens,
    sshKeys,
    repositories,
    protections,
    collaborators,
    secrets,
    rotation,
    workflows,
    imports,
    outbound,
    freeSpace,
    refresh,
    maintenanceRequests,
    /** What maintenance works with. */
    work,

    /** Refuses keys that do not open every secret. */
    assertKeysOpen: async () => assertKeysOpen(db, { vault: await vault(), settings, log }),

    /** Whether a server runs, at this moment. */
    isServed: () => isLocked(dataDir, 'server'),

    /** Keeps servers from running meanwhile; throws when one does. */
    holdServer: () => lock(dataDir, 'server', serverLockWaitMs),

    /** Keeps a starting server from clearing away what is being made or deleted here. */
    changeRepositories: () => lock(dataDir, 'repositories', lockWaitMs),

    /** Does the maintenance that was asked for in place of a server; false while one runs, or nothing is left. */
    async maintainHere(): Promise<boolean> {
      using server = await holdLock(join(dataDir, 'server.lock'))
      if (!server) return false
      {
        using _quiet = await lock(dataDir, 'repositories', lockWaitMs)
        await endOrphans(sshOwner(dataDir), dataDir)
      }
      const tidying = createTidying({ directories, log, startedAt: Date.now() })
      const maintenance = createMaintenance({ ...work, tidying })
      return (await maintenance.isWanted()) && maintenance.runNext(new AbortController().signal)
    },

    [Symbol.asyncDispose]: () => db.destroy(),
  }
}

/** The app on a data directory that a server has set up: for commands. */
export async function openExistingApp(options: Options): Promise<App> {
  await assertDataDirectory(options.settings.dataDir)
  return openApp(options)
}

/** Starts the service: takes the data directory, repairs what a crash left, listens. */
export async function startService(options: Options) {
  const { settings, log, version } = options
  await using starting = new AsyncDisposableStack()
  await prepareDataDirectory(settings.dataDir).catch((error) => {
    throw new Error(`SVC_DATA_DIR: ${settings.dataDir} cannot be used: ${error.message}`, {
      cause: error,
    })
  })
  starting.use(await lock(settings.dataDir, 'server', serverLockWaitMs))
  const app = starting.use(await openApp(options))
  const { git, directories, freeSpace, clock, db, address } = app
  const { tokens, sshKeys, repositories, imports, workflows } = app
  starting.defer(() => git.killAll())
  await Promise.all([assertHooks(), assertGitVersion(git), app.assertKeysOpen()])

  const pushes = createPushes({ ...app, onFinished: workflows.wake, log })
  {
    using _quiet = await app.changeRepositories()
    const orphans = await endOrphans(sshOwner(settings.dataDir), settings.dataDir)
    if (orphans > 0) log.warn({ orphans }, 'ended the processes of a server that was killed')
    await directories.prepare((id) => endOrphans(importOwner(id)))
    await assertSameInstance({
      db,
      dataDir: settings.dataDir,
      hasData: (await directories.list()).length > 0,
    })
    await pushes.sweep()
    await imports.sweep()
    await workflows.recover()
    const { setAside, missing } = await repositories.reconcile()
    if (setAside.length > 0)
      log.error({ setAside }, 'the database does not know these repositories')
    if (missing.length > 0) log.error({ missing }, 'repositories have lost their directories')
  }
  // From here on only this server's own gits change anything.
  const tidying = createTidying({ directories, log, startedAt: Date.now() })
  const turns = createGitTurns(settings)
  const metrics = createMetricsLater({ version })
  const onOperation = (door: string) => (operation: Operation) =>
    metrics.operated({ ...operation, door })
  const gitEngine = createGitEngine({
    ...app,
    pushes,
    tidying,
    turns,
    settings,
    log,
    onOperation: onOperation('http'),
  })
  const maintenance = createMaintenance({ ...app.work, tidying, onEnd: metrics.maintained })

  const background = new AbortController()
  starting.defer(() => background.abort())
  const tidied = tidying
    .all(await directories.list(), background.signal)
    .catch((error) => log.error({ err: error }, 'leftovers of a crash could not be cleared away'))
  await Promise.race([tidied, new Promise((resolve) => setTimeout(resolve, tidyBeforeAnswerMs))])

  const health = () => (freeSpace.isShort() ? 'storage_full' : 'ok')
  const routes = withPublicRoutes(
    [
      ...repositoryRoutes(app),
      ...importRoutes(imports),
      ...secretRoutes(app),
      ...workflows.routes,
      ...tokenRoutes(tokens),
      ...sshKeyRoutes(sshKeys),
      ...metricsRoutes(metrics),
      ...gitRoutes({ repositories, httpDoor: createHttpDoor(gitEngine), settings }),
    ],
    { version, baseUrl: () => address.http, health },
  )
  const server = createHttpServer({
    settings,
    routes,
    authenticate: async (token) =>
      (await workflows.authenticate(token)) ?? tokens.authenticate(token),
    requireSpace: freeSpace.require,
    onAnswered: metrics.answered,
    clock,
    log,
  })
  const listening = await server.listen()
  starting.defer(() => server.stop(0))
  address.http = settings.baseUrl ?? reachable(listening)

  const createBackend = () =>
    createSshBackend({ ...app, pushes, tidying, turns, onOperation: onOperation('ssh') })
  const ssh =
    settings.sshPort === 'off'
      ? undefined
      : await startSshProcess({ ...options, createBackend, port: settings.sshPort })
  if (ssh) starting.defer(() => ssh.end())
  address.ssh = ssh ? toSshUrl(settings, ssh) : null
  const newAdminToken = await tokens.setUp(settings.adminToken?.reveal())

  git.prepare()
  metrics.prepare()
  addGauges(metrics, {
    ...app,
    turns,
    countDue: maintenance.countDue,
    countSshGits: ssh?.countGits,
  })
  const maintaining = starting.use(startMaintenanceLoop({ maintenance, log }))

  const runner = createRunnerProcess({
    ...options,
    url: reachable(listening),
    token: workflows.runnerSecret,
    onEnd: workflows.recover,
  })
  starting.defer(runner.abandon)
  const working = starting.use(workflows.start(runner))
  if (await workflows.hasWork()) runner.wake()
  const told = settings.runner ? tellIsolation(options) : undefined
  starting.defer(() => told)

  const works = {
    'the sweep of pushes': () => pushes.sweep(),
    'the sweep of imports': imports.sweep,
    'emptying the trash': directories.emptyTrash,
  }
  starting.use(startSweeping(works, log))

  const resources = starting.move()
  return {
    db,
    routes,
    secrets: app.secrets,
    /** The addresses that are listened on; `ssh` is null when SSH is off. */
    http: listening,
    ssh: ssh ? `ssh://${sshUser}@${ssh.host}:${ssh.port}` : null,
    /** The addresses for clients. */
    baseUrl: address.http,
    sshUrl: address.ssh,
    /** The first admin token, on the start that made it. */
    newAdminToken,
    /** Finishes running requests, for as long as the settings allow, and closes everything. */
    async stop(): Promise<void> {
      const timeoutMs = settings.stopSeconds * 1000
      // While the server still takes what the runner hands back.
      await runner.stop(timeoutMs * shareOfRunner)
      await Promise.all([
        maintaining[Symbol.asyncDispose](),
        working[Symbol.asyncDispose](),
        server.stop(timeoutMs),
        ssh?.stop(timeoutMs),
        imports.stop(timeoutMs * shareOfImports),
      ])
      await pushes.drain()
      await resources.disposeAsync()
    },
    /** Ends all git processes at once, for a program that is about to exit. */
    abandon(): void {
      git.killAll()
      ssh?.abandon()
      runner.abandon()
    },
  }
}
