import type { FieldError } from '../base/problem.ts'
import { Problem } from '../base/problem.ts'
import { type Checker, CheckerBusyError, missingActionFaults } from '../workflow-parser/checker.ts'
import { formatFault } from '../workflow-parser/fault-list.ts'
import type { Fault, SourceFile, Workflow } from '../workflow-parser/workflow.ts'
import type { CommitFiles } from './commit-files.ts'

/** Workflow files of a commit, the actions that they use, and the parsed workflows. */
export type Sources = {
  files: SourceFile[]
  actions: SourceFile[]
  workflows: Workflow[]
  /** If empty, each file has its entry in `workflows`. */
  faults: Fault[]
}

const maxActions = 50
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

/** Checks workflow files; `read` loads the actions that they use. */
export async function checkSources(
  checker: Checker,
  files: SourceFile[],
  read: ReadFile,
): Promise<Sources> {
  const actions: SourceFile[] = []
  const faults: Fault[] = []
  const requested = new Set<string>()
  for (;;) {
    const checked = await checker.check(files, actions).catch(toProblem)
    const missing = checked.missingActions.filter((folder) => !requested.has(folder))
    if (missing.length === 0 || requested.size >= maxActions) {
      const all = [...checked.workflows, ...checked.actions].flatMap((one) => one.faults)
      const workflows = checked.workflows.flatMap(({ workflow }) => (workflow ? [workflow] : []))
      const notFound = missingActionFaults(checked)
      return { files, actions, workflows, faults: [...all, ...notFound, ...faults] }
    }
    for (const folder of missing) {
      requested.add(folder)
      const found = await readAction(read, folder)
      if (found && 'text' in found) actions.push(found)
      else if (found) faults.push(unreadable(found.path, found.fault))
    }
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

/** Formats faults one per line, for the failed run that they cause. */
export function describeFaults(faults: Fault[]): string {
  const lines = faults.slice(0, shownFaultsLimit).map(formatFault)
  const more = faults.length - lines.length
  return [...lines, ...(more > 0 ? [`And ${more} more.`] : [])].join('\n')
}

/** Creates the Problem that lists the faults of workflow files. */
export function invalid(faults: Fault[]): Problem {
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
