import { createAccessWatch } from './access/access-watch.ts'
import { type Options, openApp } from './app.ts'
import { lockServer, prepareDataDirectory } from './config/data-directory.ts'
import { ping } from './database/ping.ts'
import { createEventLog } from './event-log/event-log.ts'
import { pruneEvents } from './event-log/event-retention.ts'
import { eventRoutes } from './event-log/event-routes.ts'
import { endOrphans } from './git/process/orphans.ts'
import { createSpawnHelper } from './git/process/spawn-helper.ts'
import { assertGitVersion } from './git/process/version.ts'
import { assertHooks } from './git/protocol/hook-channel.ts'
import { createRefCache } from './git/refs/ref-cache.ts'
import { createGitEngine } from './git-server/git-engine.ts'
import { createGitOverHttp } from './git-server/http/git-over-http.ts'
import { gitRoutes } from './git-server/http/git-routes.ts'
import { createPushJournal } from './git-server/receive-pack/push-journal.ts'
import { pushRoutes } from './git-server/receive-pack/push-routes.ts'
import { createPushes } from './git-server/receive-pack/pushes.ts'
import { createRetainedCommits } from './git-server/receive-pack/retained-commits.ts'
import { createUndo } from './git-server/receive-pack/undo.ts'
import { createGitLimiters } from './git-server/requests/git-limiters.ts'
import type { Operation } from './git-server/requests/operations.ts'
import { sshUser } from './git-server/ssh/git-over-ssh.ts'
import { createSshRpcServer } from './git-server/ssh/rpc-server.ts'
import { sshOwner, startSshProcess } from './git-server/ssh/ssh-process.ts'
import { reachable, toSshUrl } from './git-server/ssh/ssh-url.ts'
import { createResponseCache, type FetchSource } from './git-server/upload-pack/response-cache.ts'
import { createHealthCheck } from './http/health.ts'
import { createHttpServer } from './http/http-server.ts'
import { withPublicRoutes } from './http/public-routes.ts'
import { createMaintenance } from './maintenance/maintenance.ts'
import { startMaintenanceLoop } from './maintenance/maintenance-loop.ts'
import { startSweeping } from './maintenance/sweeping.ts'
import { addGauges } from './metrics/gauges.ts'
import { createMetricsLater } from './metrics/later.ts'
import { metricsRoutes } from './metrics/metrics-routes.ts'
import { importOwner } from './repositories/import-job.ts'
import { importRoutes } from './repositories/import-routes.ts'
import { assertSameInstance } from './repositories/instance.ts'
import { createRepositoryHolds } from './repositories/repository-holds.ts'
import { repositoryRoutes } from './repositories/repository-routes.ts'
import { prepareMemoryLimits } from './sandbox/memory-trial.ts'
import { secretRoutes } from './secrets/secret-routes.ts'
import { sshKeyRoutes } from './ssh-keys/ssh-key-routes.ts'
import { tokenRoutes } from './tokens/token-routes.ts'
import { reportIsolation } from './workflows/report-isolation.ts'
import { createRunnerProcess } from './workflows/runner-process.ts'

// Shares of the stop timeout. After an import's share it is aborted and cleaned up, and its client gets a response.
const shareOfImports = 0.9
const shareOfRunner = 0.3
const shareOfDeliveries = 0.5
// Crash leftovers are removed before the first request if that is quick, and otherwise in the background.
const cleanUpBeforeListeningMs = 300

/** Starts the service: locks the data directory, recovers from crashes, and listens. */
export async function startService(options: Options) {
  const { settings, log, version } = options
  await using starting = new AsyncDisposableStack()
  await prepareDataDirectory(settings.dataDir).catch((error) => {
    throw new Error(`SVC_DATA_DIR: ${settings.dataDir} cannot be used: ${error.message}`, {
      cause: error,
    })
  })
  starting.use(await lockServer(settings.dataDir))
  if (settings.runner) prepareMemoryLimits()
  const spawnHelper = starting.use(createSpawnHelper({ ...options, owner: settings.dataDir }))
  const app = starting.use(await openApp({ ...options, spawnHelper }))
  const { git, directories, freeSpace, clock, db, address } = app
  const { tokens, sshKeys, repositories, imports, workflows, webhooks } = app
  starting.defer(() => git.killAll())
  await Promise.all([assertHooks(), assertGitVersion(git), app.assertKeysOpen()])

  // What a crash left open is settled by visitors, too; the gits of then are ended before.
  const repositoryHolds = createRepositoryHolds({ directories, log, startedAt: Date.now() })
  const retainedCommits = createRetainedCommits({ ...app.work, repositoryHolds })
  const pushes = createPushes({ ...app, retainedCommits, repositoryHolds, log })
  {
    using _lock = await app.changeRepositories()
    const orphans = await endOrphans(sshOwner(settings.dataDir), settings.dataDir)
    if (orphans > 0) log.warn({ orphans }, 'orphaned processes of a killed server ended')
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
    if (setAside.length > 0) log.error({ setAside }, 'repositories missing from the database')
    if (missing.length > 0) log.error({ missing }, 'repository directories missing')
  }
  const limiters = createGitLimiters(settings)
  const pushJournal = createPushJournal(app.work)
  const undo = createUndo({ ...app, pushes, pushJournal, repositoryHolds, limiters })
  const metrics = createMetricsLater({ version })
  const onOperation = (via: string) => (operation: Operation) =>
    metrics.operated({ ...operation, via })
  const refCache = createRefCache({ git, maxBytes: settings.refsCacheBytes })
  const onFetch = (via: string) => (source: FetchSource) => metrics.fetched({ via, source })
  const responseCache = starting.use(
    createResponseCache({ settings, freeSpace, clock, onFetch: onFetch('http') }),
  )
  const gitEngine = createGitEngine({
    ...app,
    refCache,
    responseCache,
    pushes,
    via: 'http',
    repositoryHolds,
    limiters,
    settings,
    log,
    onOperation: onOperation('http'),
  })
  const maintenance = createMaintenance({ ...app.work, repositoryHolds, onEnd: metrics.maintained })

  const background = new AbortController()
  starting.defer(() => background.abort())
  const cleanedUp = repositoryHolds
    .all(await directories.list(), background.signal)
    .catch((error) => log.error({ err: error }, 'clean-up after a crash failed'))
  await Promise.race([
    cleanedUp,
    new Promise((resolve) => setTimeout(resolve, cleanUpBeforeListeningMs)),
  ])

  const requireParts = createHealthCheck([
    {
      code: 'database_unavailable',
      detail: 'The database does not respond.',
      probe: () => ping(db),
    },
    {
      code: 'storage_unavailable',
      detail: 'The data directory cannot be read.',
      probe: directories.assertThere,
    },
  ])
  const health = async () => {
    await requireParts()
    return freeSpace.isShort() ? 'storage_full' : 'ok'
  }
  const routes = withPublicRoutes(
    [
      ...repositoryRoutes({ ...app, defaultBranches: pushes }),
      ...importRoutes(imports),
      ...secretRoutes(app),
      ...workflows.routes,
      ...eventRoutes(createEventLog(app)),
      ...webhooks.routes,
      ...tokenRoutes(tokens),
      ...sshKeyRoutes(sshKeys),
      ...metricsRoutes(metrics),
      ...pushRoutes({ repositories, pushJournal, undo }),
      ...gitRoutes({ repositories, gitOverHttp: createGitOverHttp(gitEngine), settings }),
    ],
    { version, baseUrl: () => address.http, health },
  )
  const server = createHttpServer({
    settings,
    routes,
    authenticate: async (token) =>
      (await workflows.authenticate(token)) ?? tokens.authenticate(token),
    accessWatch: createAccessWatch({ recheck: app.recheckAccess }),
    requireSpace: freeSpace.require,
    requireParts,
    onCompleted: metrics.answered,
    clock,
    log,
  })
  const listening = await server.listen()
  starting.defer(() => server.stop(0))
  address.http = settings.baseUrl ?? reachable(listening)

  const createBackend = () =>
    createSshRpcServer({
      ...app,
      requireParts,
      pushes,
      repositoryHolds,
      limiters,
      onOperation: onOperation('ssh'),
      onFetch: onFetch('ssh'),
    })
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
    limiters,
    refCache,
    countDue: maintenance.countDue,
    responseCache,
    countSsh: ssh?.count,
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
  const delivering = starting.use(
    webhooks.start({
      onAttempt: metrics.attempted,
      stopMs: settings.stopSeconds * 1000 * shareOfDeliveries,
    }),
  )
  const reported = settings.runner ? reportIsolation(options) : undefined
  starting.defer(() => reported)

  const works = {
    'push clean-up': () => pushes.sweep(),
    'retained commit expiry': retainedCommits.expire,
    'push journal pruning': pushJournal.prune,
    'import clean-up': imports.sweep,
    'deleted webhook clean-up': webhooks.purge,
    'delivery pruning': () => webhooks.forget(background.signal),
    'trash clean-up': directories.emptyTrash,
    'event pruning': () =>
      pruneEvents({ ...app, keptDays: settings.eventsKeptDays, signal: background.signal }),
  }
  starting.use(startSweeping(works, log))

  const resources = starting.move()
  return {
    db,
    routes,
    secrets: app.secrets,
    /** The listening addresses; `ssh` is null when SSH is off. */
    http: listening,
    ssh: ssh ? `ssh://${sshUser}@${ssh.host}:${ssh.port}` : null,
    /** The public addresses. */
    baseUrl: address.http,
    sshUrl: address.ssh,
    /** The first admin token, on the start that created it. */
    newAdminToken,
    /** Waits for running requests, within the configured stop timeout, and closes everything. */
    async stop(): Promise<void> {
      const timeoutMs = settings.stopSeconds * 1000
      // First, while the server still accepts the runs that the runner hands back.
      await runner.stop(timeoutMs * shareOfRunner)
      await Promise.all([
        maintaining[Symbol.asyncDispose](),
        working[Symbol.asyncDispose](),
        delivering[Symbol.asyncDispose](),
        server.stop(timeoutMs),
        ssh?.stop(timeoutMs),
        imports.stop(timeoutMs * shareOfImports),
      ])
      await pushes.drain()
      await resources.disposeAsync()
    },
    /** Kills all child processes without waiting, for a program that is about to exit. */
    abandon(): void {
      git.killAll()
      ssh?.abandon()
      runner.abandon()
    },
  }
}
