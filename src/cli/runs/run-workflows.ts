import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, homedir, hostname, tmpdir, userInfo } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { toSandboxOptions } from '#actions/runner/runner-configuration.ts'
import { openSandbox, type SandboxOptions } from '#actions/sandbox/open-sandbox.ts'
import { toRunnerArchitecture } from '#actions/workflow-engine/contexts.ts'
import { executeRun } from '#actions/workflow-engine/execute-run.ts'
import { createLogRenderer, renderPiece } from '#actions/workflow-engine/output/render-log.ts'
import type { Conclusion, Plan } from '#actions/workflow-engine/plan.ts'
import { formatFaults } from '#actions/workflow-parser/source/fault-list.ts'
import { createSemaphore } from '#base/concurrency/semaphore.ts'
import { listedHostsFault, listedHostsForm, parseListedHosts } from '#base/outbound/listed-hosts.ts'
import { shortRef } from '#base/short-ref.ts'
import type { Settings } from '#config/settings.ts'
import { pushPayload } from '#events/github-payloads/push-payload.ts'
import { dispatchPayload, schedulePayload } from '#events/github-payloads/started-payloads.ts'
import { openObjects } from '#git/objects/object-reader.ts'
import { createGit, type Git } from '#git/process/git-process.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { openCommit } from '#workflows/commits/commit-files.ts'
import { type Sources, withoutCallees } from '#workflows/commits/workflow-sources.ts'
import { UsageError } from '../terminal/command-errors.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { checkWorkflows } from './check-workflows.ts'
import { createFolderStorage } from './folder-storage.ts'
import { createLocalCheckout } from './local-checkout.ts'
import { type LocalEvent, locateWorkflows, readLocalFiles } from './local-files.ts'
import { localToolset } from './local-tools.ts'
import { networkAdvice } from './network-advice.ts'
import { createRunSummary } from './run-summary.ts'
import { assertJobs, toInputs, toSecrets } from './run-values.ts'
import { findWorkingTree, listFiles, type WorkingTree } from './working-tree.ts'

/** The options of the command line. */
export type RunOptions = {
  check?: boolean
  job?: string[]
  event?: LocalEvent
  input?: string[]
  secret?: string[]
  secretsFile?: string
  /** `none`, `full`, or a list of hosts. */
  network?: string
  artifacts?: string
  /** For a check: a server that the user is logged in to. */
  server?: string
}

type Options = {
  settings: Settings
  environment: Record<string, string | undefined>
  version: string
  /** The search path for programs, as in PATH. */
  path: string
  /** The current directory. */
  folder: string
  terminal: Pick<Terminal, 'out' | 'err'>
  signal: AbortSignal
  kill: AbortSignal
}

/** Of each working tree. */
const cachesMaxBytes = 5 * 1024 ** 3

/** `svc run`: executes workflow files on a copy of the working tree. Returns the exit code, 2 for invalid files. */
export async function runWorkflows(
  names: string[],
  flags: RunOptions,
  options: Options,
): Promise<number> {
  const { settings, path, folder, terminal } = options
  const { event, job: jobs = [] } = flags
  if (flags.check) {
    return checkWorkflows({
      ...{ names, jobs, event, folder, terminal },
      toolset: localToolset(options),
      adviseOnNetwork: (workflows) =>
        networkAdvice(workflows, { ...options, server: flags.server }),
    })
  }
  if (flags.server !== undefined) throw new UsageError('--server is for --check.')
  const git = createGit({ settings, owner: folder, path })
  const tree = await findWorkingTree(git, folder)
  const located = await locateWorkflows(tree.folder, { names, from: folder })
  const areNamed = names.length > 0
  const read = await readLocalFiles(located, areNamed ? undefined : event)
  const found = withoutCallees(read, areNamed)
  if (found.faults.length > 0) {
    terminal.err(
      formatFaults(found.faults)
        .map((line) => `${line}\n`)
        .join(''),
    )
    return 2
  }
  if (found.files.length === 0) throw new UsageError('All workflow files are only for calls.')
  assertJobs(jobs, found.workflows)
  const plan = await toPlan(git, tree, found, flags, options)
  const workFolder = await mkdtemp(join(tmpdir(), 'svc-run-'))
  try {
    const conclusion = await execute({ git, tree, plan, workFolder, flags, options })
    return conclusion === 'success' ? 0 : 1
  } finally {
    await rm(workFolder, { recursive: true, force: true })
  }
}

type Execution = {
  git: Git
  tree: WorkingTree
  plan: Plan
  workFolder: string
  flags: RunOptions
  options: Options
}

async function execute({ git, tree, plan, workFolder, flags, options }: Execution) {
  const { settings, path, terminal, signal, kill, folder } = options
  const { mode, limits, readOnlyPaths } = toSandboxOptions(settings)
  const sandbox = await openSandbox({
    folder: await mkdtemp(join(workFolder, 'workspaces-')),
    path,
    ...toNetwork(flags.network, settings),
    mode,
    ownUserAllowed: true,
    limits: { ...limits, freeSpaceMinBytes: settings.freeSpaceMinBytes ?? 0 },
    readOnlyPaths,
    hiddenPaths: [workFolder],
  })
  const files = await listFiles(git, tree)
  const render = createLogRenderer()
  const summary = createRunSummary()
  let conclusion: Conclusion | undefined
  await using checkout = createLocalCheckout({ git, tree, files, plan, folder: workFolder, path })
  await executeRun({
    plan,
    sandbox,
    runner: {
      name: hostname(),
      labels: [],
      arch: toRunnerArchitecture(),
      path,
      tools: localToolset(options),
      env: settings.stepEnv ?? {},
    },
    jobLimit: createSemaphore(settings.runnerJobs ?? availableParallelism()),
    checkOut: checkout.checkOut,
    checkOutAgain: checkout.checkOutAgain,
    storage: createFolderStorage({
      caches: cacheFolder(options, tree),
      artifacts:
        flags.artifacts === undefined
          ? join(workFolder, 'artifacts')
          : resolve(folder, flags.artifacts),
      cachesMaxBytes,
    }),
    report(entry) {
      summary.take(entry)
      if (entry.kind === 'run-ended') {
        conclusion = entry.conclusion
        terminal.out(`\n${summary.toText()}`)
      }
      // As bytes, since steps may use colours.
      terminal.out(Buffer.from(renderPiece(render(entry))))
    },
    ...(flags.job && { jobs: flags.job }),
    signal,
    kill,
  })
  return conclusion
}

/** Where the caches of a working tree are. */
function cacheFolder({ environment }: Options, { folder }: WorkingTree): string {
  const root = environment.XDG_CACHE_HOME || join(homedir(), '.cache')
  const name = createHash('sha256').update(folder).digest('hex').slice(0, 16)
  return join(root, 'svc', 'runs', name)
}

function toNetwork(
  flag: string | undefined,
  { sandboxNetwork, stepHosts }: Pick<Settings, 'sandboxNetwork' | 'stepHosts'>,
): Pick<SandboxOptions, 'network' | 'hosts'> {
  if (flag === undefined) return { network: sandboxNetwork, hosts: stepHosts }
  if (flag === 'none' || flag === 'full') return { network: flag }
  const hosts = parseListedHosts(flag)
  if (hosts) return { network: 'none', hosts }
  throw new UsageError(
    `--network: ${listedHostsFault(flag)}; it takes full, or ${listedHostsForm}.`,
  )
}

async function toPlan(
  git: Git,
  tree: WorkingTree,
  { files, actions, called, workflows }: Sources,
  flags: RunOptions,
  { settings, environment, folder }: Options,
): Promise<Plan> {
  const event = flags.event ?? 'workflow_dispatch'
  const file = flags.secretsFile === undefined ? undefined : resolve(folder, flags.secretsFile)
  const secrets = await toSecrets({ names: flags.secret ?? [], file, environment })
  const inputs = event === 'workflow_dispatch' ? toInputs(flags.input ?? [], workflows) : {}
  const { username } = userInfo()
  const commit = tree.commit ?? zeroId
  const name = basename(tree.folder)
  const branch = shortRef(tree.ref)
  const serverUrl = settings.baseUrl ?? 'http://localhost'
  const context = {
    repository: {
      id: 'local',
      name,
      ownerUsername: username,
      createdAt: 0,
      visibility: 'private' as const,
      defaultBranch: branch,
    },
    sender: username,
    baseUrl: serverUrl,
  }
  const payload = {
    push: async () => {
      const { head, before } = await readHead(git, tree)
      const update = { ref: tree.ref, before, after: commit, forced: false }
      return pushPayload(update, { commits: head ? [head] : [], head }, context)
    },
    workflow_dispatch: async () => dispatchPayload(tree.ref, inputs, context),
    schedule: async () => {
      const [first] = workflows.flatMap(({ on }) => on.schedule)
      return schedulePayload(first?.cron ?? '', context)
    },
  }
  return {
    runId: 'local',
    attempt: 1,
    number: 1,
    repository: { name, owner: username, defaultBranch: branch },
    serverUrl,
    event,
    ref: tree.ref,
    commit,
    actor: username,
    triggeringActor: username,
    inputs,
    payload: await payload[event](),
    files,
    actions,
    called,
    secrets,
    identities: [],
    kept: [],
    limits: {
      runTimeoutMs: settings.runSeconds * 1000,
      stepTimeoutMs: settings.stepSeconds * 1000,
      outputMaxBytes: settings.stepOutputMaxBytes,
    },
  }
}

// The payload is that of a push of only the last commit.
async function readHead(git: Git, { gitFolder, commit }: WorkingTree) {
  if (commit === undefined) return { head: undefined, before: zeroId }
  await using objects = await openObjects(git, gitFolder)
  const last = await openCommit(objects, commit)
  const parent = await openCommit(objects, `${commit}^`)
  return { head: last.commit, before: parent.commit?.id ?? zeroId }
}
