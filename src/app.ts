import { lookup } from 'node:dns/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Principal } from './access/principal.ts'
import { systemClock } from './base/clock.ts'
import { createFaultPoint } from './base/fault-points.ts'
import type { Log } from './base/log.ts'
import {
  assertDataDirectory,
  holdLock,
  lock,
  prepareDataDirectory,
} from './config/data-directory.ts'
import { createFreeSpace } from './config/free-space.ts'
import type { Settings } from './config/settings.ts'
import { openDatabase } from './database/database.ts'
import { gitCommands } from './git/commands.ts'
import { createGit } from './git/git-process.ts'
import { assertHooks } from './git/hook-channel.ts'
import { endOrphans } from './git/orphans.ts'
import { compareVersions, leastGitVersion, parseGitVersion, toVersionText } from './git/version.ts'
import { createGitEngine } from './git-server/git-engine.ts'
import { gitRoutes } from './git-server/git-routes.ts'
import { createGitTurns } from './git-server/git-turns.ts'
import { createHttpDoor } from './git-server/http-door.ts'
import type { Operation } from './git-server/operations.ts'
import { createPushes } from './git-server/pushes.ts'
import { createSshBackend } from './git-server/ssh-backend.ts'
import { sshUser } from './git-server/ssh-door.ts'
import { type Listening, sshOwner, startSshProcess } from './git-server/ssh-process.ts'
import { withPublicRoutes } from './http/public-routes.ts'
import { createHttpServer } from './http/server.ts'
import { createMaintenance } from './maintenance/maintenance.ts'
import { startMaintenanceLoop } from './maintenance/maintenance-loop.ts'
import { createMaintenanceRequests } from './maintenance/maintenance-requests.ts'
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
import { sshKeyRoutes } from './ssh-keys/ssh-key-routes.ts'
import { createSshKeys } from './ssh-keys/ssh-keys.ts'
import { tokenRoutes } from './tokens/token-routes.ts'
import { createTokens } from './tokens/tokens.ts'

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

const sweepEveryMs = 60_000
// Of the time for a stop; in the rest, an import that is given up is cleared away, and whoever waits for it told.
const shareOfImports = 0.9
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
    imports,
    outbound,
    freeSpace,
    refresh,
    maintenanceRequests,
    /** What maintenance works with. */
    work,

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
  const {
    git,
    directories,
    tokens,
    sshKeys,
    repositories,
    imports,
    freeSpace,
    clock,
    db,
    address,
  } = app
  starting.defer(() => git.killAll())
  await Promise.all([assertHooks(), assertGitVersion(app.git)])

  const pushes = createPushes({ ...app, log })
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
    authenticate: tokens.authenticate,
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

  const sweeping = setInterval(() => {
    pushes.sweep().catch((error) => log.error({ err: error }, 'the sweep of pushes failed'))
    imports.sweep().catch((error) => log.error({ err: error }, 'the sweep of imports failed'))
    directories
      .emptyTrash()
      .catch((error) => log.error({ err: error }, 'the trash could not be emptied'))
  }, sweepEveryMs)
  starting.defer(() => clearInterval(sweeping))

  const resources = starting.move()
  return {
    db,
    routes,
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
      await Promise.all([
        maintaining[Symbol.asyncDispose](),
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
    },
  }
}

// The host is that of the public address, if there is one.
function toSshUrl({ baseUrl }: Settings, { host, port }: Listening): string {
  const name = baseUrl === undefined ? host : new URL(baseUrl).hostname
  return reachable(`ssh://${sshUser}@${name}:${port}`)
}

// Who listens everywhere is found here, at least.
function reachable(url: string): string {
  return url.replace(/(?<=[/@])0\.0\.0\.0:/, '127.0.0.1:').replace(/(?<=[/@])\[::\]:/, '[::1]:')
}

async function assertGitVersion(git: App['git']): Promise<void> {
  const text = await git.run(gitCommands.version()).catch((error) => {
    throw new Error('git does not run; install it (Debian: apt-get install git).', { cause: error })
  })
  const version = parseGitVersion(text)
  if (version && compareVersions(version, leastGitVersion) >= 0) return
  const [major, minor] = leastGitVersion
  throw new Error(
    `${version ? `git ${toVersionText(version)}` : 'This git'} is too old; svc needs ${major}.${minor} or newer.`,
  )
}
