import type { FieldError } from '../base/problem.ts'
import { Problem } from '../base/problem.ts'
import { type Checker, CheckerBusyError, missingActionFaults } from '../workflow-parser/checker.ts'
import { formatFault } from '../workflow-parser/fault-list.ts'
import type { Fault, SourceFile, Workflow } from '../workflow-parser/workflow.ts'
import type { CommitFiles } from './commit-files.ts'

/** Workflow files of a commit with the actions that they use, and what they were understood as. */
export type Sources = {
  files: SourceFile[]
  actions: SourceFile[]
  workflows: Workflow[]
  /** What is wrong; without any, each file is in `workflows`. */
  faults: Fault[]
}

const actionsAtMost = 50
const shownFaults = 20

/** Reads files of a commit and checks them. Throws `workflow_not_found` for one that is not there. */
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

/** Checks workflow files; `read` finds the actions that they use. */
export async function checkSources(
  checker: Checker,
  files: SourceFile[],
  read: ReadFile,
): Promise<Sources> {
  const actions: SourceFile[] = []
  const faults: Fault[] = []
  const asked = new Set<string>()
  for (;;) {
    const checked = await checker.check(files, actions).catch(asBusy)
    const missing = checked.missingActions.filter((folder) => !asked.has(folder))
    if (missing.length === 0 || asked.size >= actionsAtMost) {
      const all = [...checked.workflows, ...checked.actions].flatMap((one) => one.faults)
      const workflows = checked.workflows.flatMap(({ workflow }) => (workflow ? [workflow] : []))
      const missed = missingActionFaults(checked)
      return { files, actions, workflows, faults: [...all, ...missed, ...faults] }
    }
    for (const folder of missing) {
      asked.add(folder)
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

function asBusy(error: unknown): never {
  if (!(error instanceof CheckerBusyError)) throw error
  throw new Problem('checks_busy', 'Too many workflow files are being checked; try again.', {
    retryAfterSeconds: 1,
    cause: error,
  })
}

function unreadable(file: string, fault: string): Fault {
  return { file, line: 1, column: 1, message: `The file ${fault}.`, instead: '' }
}

/** What is wrong with files, a line each, for whoever looks at the run that there would have been. */
export function describeFaults(faults: Fault[]): string {
  const lines = faults.slice(0, shownFaults).map(formatFault)
  const more = faults.length - lines.length
  return [...lines, ...(more > 0 ? [`And ${more} more.`] : [])].join('\n')
}

/** The Problem that tells what is wrong with workflow files. */
export function invalid(faults: Fault[]): Problem {
  const errors: FieldError[] = faults.slice(0, shownFaults).map((fault) => ({
    pointer: `${fault.file}:${fault.line}:${fault.column}`,
    detail: fault.instead === '' ? fault.message : `${fault.message} ${fault.instead}`,
  }))
  const [first] = faults
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more)` : ''
  return new Problem('workflow_invalid', `${first ? formatFault(first) : 'It cannot run'}${more}`, {
    errors,
  })
}
