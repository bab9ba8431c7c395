import { type Checker, CheckerBusyError, missingFaults } from '#actions/workflow-parser/checker.ts'
import { formatFault, formatFaults } from '#actions/workflow-parser/source/fault-list.ts'
import type { Fault, Note, SourceFile, Workflow } from '#actions/workflow-parser/workflow.ts'
import { type FieldError, Problem } from '#base/problem.ts'
import type { CommitFiles } from './commit-files.ts'

/** Workflow files of a commit, the actions and workflows that they use, and all parsed workflows. */
export type Sources = {
  files: SourceFile[]
  actions: SourceFile[]
  /** Workflows that the files call, directly or not, unless they are among the files. */
  called: SourceFile[]
  workflows: Workflow[]
  calledWorkflows: Workflow[]
  /** The ids of the jobs of each file that no runner can run, by path. */
  skipped: Record<string, string[]>
  /** If empty, each file has its entry in `workflows`. */
  faults: Fault[]
  notes: Note[]
}

const maxUsed = 50
const shownFaultsLimit = 20

/** Reads and checks workflow files of a commit. Throws `workflow_not_found` for a missing file. */
export async function readSources(
  checker: Checker,
  commit: CommitFiles,
  paths: string[],
): Promise<Sources> {
  const files: SourceFile[] = []
  const faults: Fault[] = []
  for (const path of paths) {
    const found = await commit.read(path)
    if (!found) throw new Problem('workflow_not_found', `There is no ${path} in this commit.`)
    if ('text' in found) files.push(found)
    else faults.push(unreadable(found.path, found.fault))
  }
  const checked = await checkSources(checker, files, (path) => commit.read(path))
  return { ...checked, faults: [...faults, ...checked.faults] }
}

type ReadFile = (path: string) => Promise<Awaited<ReturnType<CommitFiles['read']>>>

/** Checks workflow files; `read` loads the actions and workflows that they use. */
export async function checkSources(
  checker: Pick<Checker, 'check'>,
  files: SourceFile[],
  read: ReadFile,
): Promise<Sources> {
  const actions: SourceFile[] = []
  const called: SourceFile[] = []
  const faults: Fault[] = []
  const requested = new Set<string>()
  const take = (found: Awaited<ReturnType<ReadFile>>, into: SourceFile[]) => {
    if (found && 'text' in found) into.push(found)
    else if (found) faults.push(unreadable(found.path, found.fault))
  }
  for (;;) {
    const checked = await checker.check(files, actions, called).catch(toProblem)
    const isNew = (path: string) => !requested.has(path)
    const newActions = checked.missingActions.filter(isNew)
    const newWorkflows = checked.missingWorkflows.filter(isNew)
    const isDone = newActions.length === 0 && newWorkflows.length === 0
    if (isDone || requested.size >= maxUsed) {
      const parsed = [...checked.workflows, ...checked.called, ...checked.actions]
      return {
        files,
        actions,
        called,
        workflows: checked.workflows.flatMap(({ workflow }) => workflow ?? []),
        calledWorkflows: checked.called.flatMap(({ workflow }) => workflow ?? []),
        skipped: Object.fromEntries(checked.workflows.map((one) => [one.path, one.skipped])),
        faults: [...parsed.flatMap((one) => one.faults), ...missingFaults(checked), ...faults],
        notes: parsed.flatMap((one) => one.notes),
      }
    }
    for (const path of [...newActions, ...newWorkflows]) requested.add(path)
    for (const folder of newActions) take(await readAction(read, folder), actions)
    for (const path of newWorkflows) take(await read(path), called)
  }
}

/**
 * Leaves out the files that only other workflows start; when they were named, that is a fault. They remain available to
 * those that call them.
 */
export function withoutCallees(sources: Sources, areNamed: boolean): Sources {
  const callees = sources.workflows.filter(({ on }) => {
    const starts = on.push ?? on.pullRequest ?? on.mergeGroup ?? on.dispatch ?? on.schedule[0]
    return on.call !== undefined && starts === undefined
  })
  if (callees.length === 0) return sources
  const paths = callees.map(({ path }) => path)
  const faults = callees.map(({ path: file }) => ({
    file,
    line: 1,
    column: 1,
    message: 'Only a job of another workflow starts this one: its "on" is "workflow_call".',
    instead: 'Run the workflow that calls it, or add "workflow_dispatch:" to its "on".',
  }))
  return {
    ...sources,
    files: sources.files.filter(({ path }) => !paths.includes(path)),
    workflows: sources.workflows.filter(({ path }) => !paths.includes(path)),
    called: [...sources.called, ...sources.files.filter(({ path }) => paths.includes(path))],
    calledWorkflows: [...sources.calledWorkflows, ...callees],
    faults: areNamed ? [...sources.faults, ...faults] : sources.faults,
  }
}

async function readAction(read: ReadFile, folder: string) {
  const path = (name: string) => (folder === '' ? name : `${folder}/${name}`)
  return (await read(path('action.yml'))) ?? (await read(path('action.yaml')))
}

function toProblem(error: unknown): never {
  if (!(error instanceof CheckerBusyError)) throw error
  throw new Problem('checks_busy', 'Too many workflow files are being checked; try again.', {
    retryAfterSeconds: 1,
    cause: error,
  })
}

function unreadable(file: string, fault: string): Fault {
  return { file, line: 1, column: 1, message: `The file ${fault}.`, instead: '' }
}

/** Formats faults, one line per cause, for the failed run that they cause. */
export function describeFaults(faults: Fault[]): string {
  const all = formatFaults(faults)
  const lines = all.slice(0, shownFaultsLimit)
  const more = all.length - lines.length
  return [...lines, ...(more > 0 ? [`And ${more} more.`] : [])].join('\n')
}

/** Creates the Problem that lists the faults of workflow files. */
export function invalidWorkflows(faults: Fault[]): Problem {
  const errors: FieldError[] = faults.slice(0, shownFaultsLimit).map((fault) => ({
    pointer: `${fault.file}:${fault.line}:${fault.column}`,
    detail: fault.instead === '' ? fault.message : `${fault.message} ${fault.instead}`,
  }))
  const [first] = faults
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more)` : ''
  return new Problem(
    'workflow_invalid',
    `${first ? formatFault(first) : 'The workflow is invalid'}${more}`,
    {
      errors,
    },
  )
}
