import { createAccessWatch } from '#access/access-watch.ts'
import { prepareMemoryLimits } from '#actions/sandbox/memory/memory-controller.ts'
import { pruneEvents } from '#api/event-log/event-retention.ts'
import type { Log } from '#base/log.ts'
import { reachable } from '#base/network.ts'
import { type Browse, createBrowse } from '#browse/browse.ts'
import { type Changes, createChanges } from '#changes/changes.ts'
import { createProposals } from '#changes/proposals.ts'
import { lockServer, prepareDataDirectory } from '#config/data-directory.ts'
import { warnOfOpenKeys } from '#config/key-files.ts'
import type { Settings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import { ping } from '#database/ping.ts'
import { pruneAudit } from '#events/audit/retention.ts'
import { createObjectPool, type ObjectPool } from '#git/objects/object-pool.ts'
import { endOrphans } from '#git/process/orphans.ts'
import { createSpawnHelper } from '#git/process/spawn-helper.ts'
import { assertGitVersion } from '#git/process/version.ts'
import { assertHooks } from '#git/protocol/hook-channel.ts'
import { createGitServer, type GitServer } from '#git-server/git-server.ts'
import type { Operation } from '#git-server/requests/operations.ts'
import { sshOwner, sshUser, toSshUrl } from '#git-server/ssh/ssh-process.ts'
import { createHealthCheck } from '#http/health.ts'
import { createHttpServer } from '#http/http-server.ts'
import type { Route } from '#http/route.ts'
import type { PageServer } from '#http/serve/page-requests.ts'
import { endForeignLogins } from '#identity/logins/people.ts'
import { createLoginLinks, type LoginLink } from '#identity/sessions/login-links.ts'
import { createMaintenance } from '#ops/maintenance/maintenance.ts'
import { startMaintenanceLoop } from '#ops/maintenance/maintenance-loop.ts'
import { startSweeping } from '#ops/maintenance/sweeping.ts'
import { addGauges } from '#ops/metrics/gauges.ts'
import { createMetrics, type Metrics } from '#ops/metrics/metrics.ts'
import { importOwner } from '#repositories/imports/import-job.ts'
import { assertSameInstance, assertSameStore } from '#repositories/instance.ts'
import type { NamespaceUsage } from '#repositories/namespaces/namespace-usage.ts'
import { createRepositoryHolds, type RepositoryHolds } from '#repositories/repository-holds.ts'
import { measureNewRepositories } from '#repositories/repository-sizes.ts'
import type { Secrets } from '#secrets/secrets.ts'
import { oldestUncomposed } from '#webhooks/delivery-store.ts'
import { reportIsolation } from '#workflows/runners/report-isolation.ts'
import { createRunnerProcess } from '#workflows/runners/runner-process.ts'
import { type App, type Options, openApp } from './app.ts'
import { createRoutes } from './routes.ts'

/** A running service. */
export type RunningService = {
  db: Database
  routes: Route[]
  secrets: Secrets
  logins: App['logins']
  /** The listening addresses; `ssh` is null when SSH is off. */
  http: string
  ssh: string | null
  /** The public addresses. */
  baseUrl: string
  sshUrl: string | null
  /** The first admin token, on the start that created it. */
  newAdminToken: string | undefined
  /** Creates a login link of the administrator for the terminal of a start; undefined without pages or an admin token. */
  createFirstLogin: () => Promise<LoginLink | undefined>
  /** Waits for running requests, within the configured stop timeout, and closes everything. */
  stop: () => Promise<void>
  /** Kills all child processes without waiting, for a program that is about to exit. */
  abandon: () => void
}

// Shares of the stop timeout. After an import's share it is aborted and cleaned up, and its client gets a response.
const shareOfImports = 0.9
const shareOfRunner = 0.3
const shareOfDeliveries = 0.5
// Longer than that of other links, since a person has to find it among what a start prints.
const firstLoginMs = 10 * 60_000
// Crash leftovers are removed before the first request if that is quick, and otherwise in the background.
const cleanUpBeforeListeningMs = 300

/** Starts the service: locks the data directory, recovers from crashes, listens, and starts background work. */
export async function startService(options: Options): Promise<RunningService> {
  const { settings, log, path, version } = options
  await using starting = new AsyncDisposableStack()
  const app = await openServedApp(options, starting)
  const { db, address, tokens, workflows, imports } = app

  const { sessions } = app
  const baseUrl = () => address.http
  const createLoginLink = createLoginLinks({ sessions, hasPages: settings.pages, baseUrl })
  const metrics = createMetrics({ version })
  const requireParts = createRequireParts(app)
  const repositoryHolds = createRepositoryHolds({
    directories: app.directories,
    log,
    startedAt: Date.now(),
  })
  const pool = starting.use(createObjectPool({ git: app.git }))
  const follow: Changes['follow'] = (...given) => changes.follow(...given)
  const proposals = createProposals({ ...app, baseUrl, follow })
  const gitServer = starting.use(
    createGitServer({
      ...app,
      proposals,
      findUnapproved: (...given) => changes.findUnapproved(...given),
      pool,
      repositoryHolds,
      findMissing: workflows.findMissing,
      runAwaited: workflows.runAwaited,
      createLoginLink,
      settings,
      baseUrl,
      requireParts,
      onOperation(operation) {
        metrics.operated(operation)
        countOperation(app.namespaceUsage, operation)
      },
      onTransfer: app.namespaceUsage.add,
      onFetch: metrics.fetched,
    }),
  )
  const runs = workflows.candidateRuns
  const changes = createChanges({ ...app, ...gitServer, log, proposals, baseUrl, runs })
  const browse = starting.use(createBrowse({ ...app, pool, settings }))
  const background = new AbortController()
  starting.defer(() => background.abort())
  await recover({ app, gitServer, settings, log })
  await cleanUpRepositories({ app, repositoryHolds, log, signal: background.signal })

  const routes = createRoutes({
    ...{ app, settings, gitServer, changes, browse, createLoginLink },
    metrics,
    version,
    requireParts,
  })
  const server = createHttpServer({
    settings,
    routes,
    authenticate: async (token, options) =>
      (await workflows.authenticate(token)) ??
      (await tokens.authenticate(token)) ??
      (await app.workloads.authenticate(token)) ??
      gitServer.authenticateLfs(token, options),
    accessWatch: createAccessWatch({ recheck: app.recheckAccess }),
    requireSpace: app.freeSpace.require,
    requireParts,
    loadPages: () => loadPages({ app, browse, settings }),
    onCompleted: metrics.completed,
    clock: app.clock,
    log,
  })
  const http = await server.listen()
  starting.defer(() => server.stop(0))
  address.http = settings.baseUrl ?? reachable(http)
  const ssh = await gitServer.startSsh({ path })
  if (ssh) starting.defer(() => ssh.end())
  address.ssh = ssh ? toSshUrl(settings, ssh) : null
  const newAdminToken = await tokens.setUp(settings.adminToken?.reveal())

  const work = await startWork({
    ...{ options, app, pool, gitServer, changes, browse, ssh, repositoryHolds, metrics },
    url: settings.runner ? await server.listenForRunner() : http,
    signal: background.signal,
    starting,
  })
  const resources = starting.move()
  return {
    db,
    routes,
    secrets: app.secrets,
    logins: app.logins,
    http,
    ssh: ssh ? `ssh://${sshUser}@${ssh.host}:${ssh.port}` : null,
    baseUrl: address.http,
    sshUrl: address.ssh,
    newAdminToken,

    async createFirstLogin() {
      const admin = settings.pages ? await tokens.firstAdmin() : undefined
      return admin && createLoginLink(admin, { lifetimeMs: firstLoginMs })
    },

    async stop() {
      const timeoutMs = settings.stopSeconds * 1000
      gitServer.endWaits()
      const runnerEnded = work.runner.stop(timeoutMs * shareOfRunner)
      await Promise.all([
        // They take the runs that the runner hands back.
        runnerEnded.then(() => Promise.all(work.loops.map((loop) => loop[Symbol.asyncDispose]()))),
        server.stop(timeoutMs, runnerEnded),
        ssh?.stop(timeoutMs),
        imports.stop(timeoutMs * shareOfImports),
      ])
      await gitServer.drain()
      await resources.disposeAsync()
    },

    abandon() {
      app.git.killAll()
      ssh?.abandon()
      work.runner.abandon()
    },
  }
}

/** Opens the app as the only server of its data directory. */
async function openServedApp(options: Options, starting: AsyncDisposableStack): Promise<App> {
  const { settings, log, path } = options
  const { dataDir } = settings
  await prepareDataDirectory(dataDir).catch((error) => {
    throw new Error(`SVC_DATA_DIR: ${dataDir} cannot be used: ${error.message}`, { cause: error })
  })
  starting.use(await lockServer(dataDir))
  await warnOfOpenKeys(settings, log)
  if (settings.runner) prepareMemoryLimits()
  const spawnHelper = starting.use(createSpawnHelper({ owner: dataDir, path, log }))
  const app = starting.use(await openApp({ ...options, spawnHelper }))
  await app.store.prepare()
  starting.use(await app.nodes.start())
  starting.defer(() => app.git.killAll())
  await Promise.all([assertHooks(), assertGitVersion(app.git)])
  return app
}

type LoadedParts = { app: App; browse: Browse; settings: Settings }

/** Loads the pages when the first is requested: a server whose pages are not used spends no memory on them. */
async function loadPages({ app, browse, settings }: LoadedParts): Promise<PageServer> {
  const { createWeb } = await import('#web/serve/web.ts')
  const { address } = app
  return createWeb({
    ...app,
    settings,
    baseUrl: () => address.http,
    sshUrl: () => address.ssh,
    stampOf: browse.stampOf,
    hasPublic: app.repositories.hasPublic,
  })
}

function createRequireParts({ db, directories, store }: Pick<App, 'db' | 'directories' | 'store'>) {
  return createHealthCheck([
    {
      code: 'database_unavailable',
      detail: 'The database does not respond.',
      probe: () => ping(db),
    },
    {
      code: 'storage_unavailable',
      detail: 'The data directory cannot be read or written.',
      probe: directories.assertThere,
    },
    {
      code: 'storage_unavailable',
      detail: 'The object store does not respond, or refuses this server.',
      probe: store.ping,
      // Each node asks the same store.
      freshMs: 5000,
    },
  ])
}

function countOperation(
  usage: Pick<NamespaceUsage, 'add'>,
  { kind, outcome, transfer }: Operation,
): void {
  if (!transfer) return
  const { repositoryId, receivedBytes, sentBytes } = transfer
  const isFetch = kind === 'fetch' && outcome === 'done'
  usage.add(repositoryId, { receivedBytes, sentBytes, fetches: isFetch ? 1 : 0 })
}

type Recovery = { app: App; gitServer: GitServer; settings: Settings; log: Log }

/** Repairs what a crash has left: orphaned processes, unfinished pushes, imports and runs, stray directories. */
async function recover({ app, gitServer, settings, log }: Recovery): Promise<void> {
  const { db, directories, store, imports, workflows, repositories } = app
  const { dataDir } = settings
  using _lock = await app.changeRepositories()
  const orphans = await endOrphans(sshOwner(dataDir), dataDir)
  if (orphans > 0) log.warn({ orphans }, 'orphaned processes of a killed server ended')
  await directories.prepare((id) => endOrphans(importOwner(id)))
  const isShared = store.shared !== undefined
  const stored = isShared ? [] : [await directories.list(), await directories.listDeleted()].flat()
  const hasData = stored.length > 0
  await assertSameInstance({ db, dataDir, hasData, isShared })
  await assertSameStore(db, isShared)
  // In this order: of servers with different settings that start at once, one goes on and decides.
  await store.join()
  await app.assertKeysOpen()
  const ended = await endForeignLogins(app, settings.oidcIssuer)
  if (ended > 0) log.warn({ ended }, 'logins at another identity provider ended')
  await gitServer.finalizePushes()
  await imports.sweep()
  await workflows.prepareFiles()
  await workflows.recover()
  const { quarantined, missing, unreadable } = await repositories.reconcile()
  if (quarantined.length > 0) log.error({ quarantined }, 'repositories missing from the database')
  if (missing.length > 0) log.error({ missing }, 'repository directories missing')
  if (unreadable.length > 0)
    log.error({ unreadable }, 'repositories in the ref format reftable; see svc doctor')
}

type CleanUp = {
  app: Pick<App, 'directories'>
  repositoryHolds: RepositoryHolds
  log: Log
  signal: AbortSignal
}

/** Starts the clean-up of all repositories, and waits for it for a moment. */
async function cleanUpRepositories({ app, repositoryHolds, log, signal }: CleanUp): Promise<void> {
  const cleanedUp = repositoryHolds
    .cleanUpAll(await app.directories.list(), signal)
    .catch((error) => log.error({ err: error }, 'clean-up after a crash failed'))
  await Promise.race([
    cleanedUp,
    new Promise((resolve) => setTimeout(resolve, cleanUpBeforeListeningMs)),
  ])
}

type WorkParts = {
  options: Options
  app: App
  pool: ObjectPool
  gitServer: GitServer
  changes: Changes
  browse: Browse
  ssh: Awaited<ReturnType<GitServer['startSsh']>>
  repositoryHolds: RepositoryHolds
  metrics: Metrics
  /** The address of the server on this machine. */
  url: string
  signal: AbortSignal
  starting: AsyncDisposableStack
}

/** Starts everything that runs without a request: maintenance, runs, deliveries, metrics and sweeps. */
async function startWork(parts: WorkParts) {
  const { options, app, pool, gitServer, browse, ssh, repositoryHolds, metrics, url } = parts
  const { signal, starting } = parts
  const { settings, log, path, version } = options
  const { db, git, directories, store, freeSpace, clock } = app
  const { workflows, webhooks, imports } = app
  git.prepare()
  const maintenance = createMaintenance({
    ...app,
    repositoryHolds,
    settings,
    leaseOwner: app.nodes.own,
    onEnd: metrics.maintained,
  })
  const { namespaceUsage } = app
  addGauges(metrics, {
    ...{ db, clock, freeSpace, gitServer, ssh, maintenance, workflows, namespaceUsage },
  })
  starting.use(namespaceUsage.start(log))
  const maintaining = starting.use(startMaintenanceLoop({ maintenance, log }))
  const runner = createRunnerProcess({
    url,
    token: workflows.runnerToken,
    settings,
    log,
    path,
    version,
    onEnd: workflows.recover,
  })
  starting.defer(runner.abandon)
  const working = starting.use(workflows.start(runner, pool))
  const landing = starting.use(parts.changes.start())
  if (await workflows.hasWork()) runner.wake()
  const stopMs = settings.stopSeconds * 1000 * shareOfDeliveries
  const delivering = starting.use(webhooks.start({ onAttempt: metrics.attempted, stopMs }))
  const reported = settings.runner ? reportIsolation({ settings, path, log }) : undefined
  starting.defer(() => reported)
  const sweeps = {
    ...gitServer.sweeps,
    'import clean-up': imports.sweep,
    'deleted repository purge': app.deletedRepositories.sweep,
    'last commit pruning': browse.prune,
    'deleted webhook clean-up': webhooks.purge,
    'delivery pruning': () => webhooks.prune(signal),
    'measurement of repositories': () => measureNewRepositories({ db, store, log }),
    'usage pruning': namespaceUsage.prune,
    'store clean-up': store.sweep,
    'artifact and cache clean-up': app.workflows.sweepFiles,
    'trash clean-up': directories.emptyTrash,
    'audit log pruning': () => pruneAudit({ db, clock, keptDays: settings.auditKeptDays, signal }),
    'session pruning': app.sessions.prune,
    'command line login pruning': app.cliLogins.prune,
    'check of logins': async () => app.logins?.checkDue(signal),
    'event pruning': () =>
      pruneEvents({
        db,
        clock,
        keptDays: settings.eventsKeptDays,
        oldestUndelivered: oldestUncomposed,
        signal,
      }),
  }
  starting.use(startSweeping(sweeps, log))
  return { runner, loops: [maintaining, working, landing, delivering] }
}
