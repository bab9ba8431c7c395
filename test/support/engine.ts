import { mkdir, mkdtemp, readdir, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { openSandbox, type SandboxOptions } from '#actions/sandbox/open-sandbox.ts'
import { createToolset } from '#actions/tool-cache/toolset.ts'
import { executeRun } from '#actions/workflow-engine/execute-run.ts'
import { createLogRenderer, renderPiece } from '#actions/workflow-engine/output/render-log.ts'
import type { Conclusion, Plan, RunEntry } from '#actions/workflow-engine/plan.ts'
import type { CheckOutAgain } from '#actions/workflow-engine/run-state.ts'
import { createSemaphore } from '#base/concurrency/semaphore.ts'
import { createFolderStorage } from '#cli/runs/folder-storage.ts'
import { copyTree } from '#cli/runs/local-checkout.ts'
import { temporaryFolder } from './git.ts'
import { without } from './programs.ts'

const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

type Options = {
  /** Workflow files by their names, or the one file ci.yml. */
  workflows: string | Record<string, string>
  /** Action files by their folders. */
  actions?: Record<string, string>
  /** Files of the workspace. */
  files?: Record<string, string>
  /** A folder that is all of the workspace instead. */
  project?: string
  plan?: Partial<Plan>
  labels?: string[]
  /** Variables of the runner for all steps. */
  stepEnv?: Record<string, string>
  /** The folder of the caches; by default all runs share one. */
  caches?: string
  maxJobs?: number
  signal?: AbortSignal
  kill?: AbortSignal
  /** By default, no step can check out anything else than what the workspace has. */
  checkOutAgain?: CheckOutAgain
  /** Called with each entry, before it is collected. */
  onEntry?: (entry: RunEntry) => void | Promise<void>
}

export type Engine = Awaited<ReturnType<typeof startEngine>>

type EngineOptions = Partial<Pick<SandboxOptions, 'network' | 'hosts'>> & {
  memoryMaxBytes?: number
  tools?: string[]
}

/** The engine with the real sandbox of this machine, and the network that it gives to steps. */
export async function startEngine({
  memoryMaxBytes = 512 * 1024 ** 2,
  tools = [],
  ...network
}: EngineOptions = {}) {
  const folder = await temporaryFolder()
  const limits = {
    memoryMaxBytes,
    processesMax: 128,
    fileMaxBytes: 64 * 1024 ** 2,
    freeSpaceMinBytes: 0,
  }
  const sandbox = await openSandbox({
    folder: folder.path,
    path,
    network: 'none',
    // A sandbox that works is not given up when a trial of it fails: the test would say something else.
    mode: without('bubblewrap') ? 'auto' : 'require',
    ownUserAllowed: true,
    ...network,
    limits,
    readOnlyPaths: tools,
    hiddenPaths: [],
  })
  const toolset = createToolset({ folders: tools, path, architecture: 'x64' })
  return {
    folder: folder.path,
    /** Executes workflows; returns the report. */
    async run({ workflows, actions = {}, files = {}, project, ...options }: Options) {
      const entries: RunEntry[] = []
      const byName = typeof workflows === 'string' ? { 'ci.yml': workflows } : workflows
      await executeRun({
        plan: toPlan(byName, actions, options.plan),
        sandbox,
        runner: {
          ...{ name: 'test', arch: 'X64', path, tools: toolset },
          labels: options.labels ?? [],
          env: options.stepEnv ?? {},
        },
        jobLimit: createSemaphore(options.maxJobs ?? 4),
        storage: createFolderStorage({
          caches: options.caches ?? join(folder.path, 'caches'),
          artifacts: await mkdtemp(join(folder.path, 'artifacts-')),
          cachesMaxBytes: 100 * 1024 ** 2,
        }),
        async checkOut(workspace) {
          const from = project ?? (await filesFolder(folder.path, files))
          await copyTree(from, await filesIn(from), workspace)
        },
        checkOutAgain:
          options.checkOutAgain ?? (() => Promise.reject(new Error('nothing to check out'))),
        async report(entry) {
          await options.onEntry?.(entry)
          entries.push(entry)
        },
        signal: options.signal ?? new AbortController().signal,
        ...(options.kill && { kill: options.kill }),
      })
      return toResult(entries)
    },
    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  }
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
}

async function filesFolder(folder: string, files: Record<string, string>): Promise<string> {
  const path = await mkdtemp(join(folder, 'files-'))
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(path, name)), { recursive: true })
    await writeFile(join(path, name), text)
  }
  return path
}

function toPlan(
  workflows: Record<string, string>,
  actions: Record<string, string>,
  plan: Partial<Plan> = {},
): Plan {
  return {
    runId: 'run1',
    attempt: 1,
    number: 7,
    repository: { name: 'site', owner: 'ada', defaultBranch: 'main' },
    serverUrl: 'http://svc.test',
    event: 'push',
    ref: 'refs/heads/main',
    commit: 'c'.repeat(40),
    actor: 'ada',
    triggeringActor: 'ada',
    inputs: {},
    payload: { ref: 'refs/heads/main' },
    files: Object.entries(workflows).map(([name, text]) => ({
      path: `.svc/workflows/${name}`,
      text,
    })),
    actions: Object.entries(actions).map(([name, text]) => ({ path: `${name}/action.yml`, text })),
    called: [],
    secrets: {},
    identities: [],
    kept: [],
    ...plan,
    limits: {
      runTimeoutMs: 120_000,
      stepTimeoutMs: 60_000,
      outputMaxBytes: 1024 * 1024,
      ...plan.limits,
    },
  }
}

/** The report, by jobs and steps. */
function toResult(entries: RunEntry[]) {
  const render = createLogRenderer()
  const ofKind = <K extends RunEntry['kind']>(kind: K) =>
    entries.filter((entry): entry is Extract<RunEntry, { kind: K }> => entry.kind === kind)
  const [end] = ofKind('run-ended')
  const jobEnds = new Map(ofKind('job-ended').map((entry) => [entry.job, entry]))
  const stepEnds = new Map(ofKind('step-ended').map((entry) => [entry.step, entry]))
  const outputOf = (step: number | null) =>
    ofKind('output')
      .filter((entry) => entry.step === step)
      .map(({ text }) => text)
      .join('')
  const jobs = ofKind('job-planned').map(({ job, name }) => ({ name, ...jobEnds.get(job) }))
  const startedNames = new Map(ofKind('step-started').map(({ step, name }) => [step, name]))
  const steps = ofKind('step-planned').map(({ step, name }) => ({
    name: startedNames.get(step) ?? name,
    ...stepEnds.get(step),
    output: outputOf(step),
  }))
  return {
    entries,
    conclusion: end?.conclusion,
    fault: end?.fault,
    jobs,
    steps,
    ownWords: outputOf(null),
    log: entries.map(render).map(renderPiece).join(''),
    /** Conclusions by the names of the jobs. */
    jobConclusions: Object.fromEntries(
      jobs.map(({ name, conclusion }): [string, Conclusion | undefined] => [name, conclusion]),
    ),
    stepConclusions: Object.fromEntries(
      steps.map(({ name, conclusion }): [string, Conclusion | undefined] => [name, conclusion]),
    ),
    /** What all steps of this name wrote. */
    outputOf: (name: string) =>
      steps
        .filter((step) => step.name === name)
        .map(({ output }) => output)
        .join(''),
  }
}
