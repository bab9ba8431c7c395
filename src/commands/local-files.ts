import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { ignoreAbsence } from '../base/absence.ts'
import type { TriggerKind } from '../workflow-engine/plan.ts'
import { parseAction, parseWorkflow } from '../workflow-parser/parse.ts'
import { usedActions } from '../workflow-parser/steps-of.ts'
import type { Action, Fault, SourceFile, Workflow } from '../workflow-parser/workflow.ts'
import { UsageError } from './usage-error.ts'

const workflowsFolder = '.svc/workflows'

/** Workflow files on the disk, the actions that they use, and the faults of both. */
export type LocalFiles = {
  files: SourceFile[]
  actions: SourceFile[]
  workflows: Workflow[]
  faults: Fault[]
}

/** Reads the named workflow files; without names, those for the event, or all of them. */
export async function readLocalFiles(
  top: string,
  { names, from, event }: { names: string[]; from: string; event: TriggerKind | undefined },
): Promise<LocalFiles> {
  const paths = names.length > 0 ? names.map((name) => toPath(top, from, name)) : await list(top)
  const found: LocalFiles = { files: [], actions: [], workflows: [], faults: [] }
  for (const path of paths) {
    const file = { path, text: await readFile(join(top, path), 'utf8') }
    const { workflow, faults } = parseWorkflow(file)
    if (workflow && names.length === 0 && event && !reactsTo(workflow, event)) continue
    found.files.push(file)
    found.faults.push(...faults)
    if (!workflow) continue
    found.workflows.push(workflow)
    await readActions(top, workflow, found)
  }
  if (found.files.length === 0) {
    throw new UsageError(
      `There is no workflow file in ${workflowsFolder}${event ? ` for ${event}` : ''}.`,
    )
  }
  return found
}

async function readActions(top: string, user: Workflow | Action, found: LocalFiles): Promise<void> {
  for (const folder of usedActions(user)) {
    const path = ['action.yml', 'action.yaml']
      .map((name) => (folder === '' ? name : `${folder}/${name}`))
      .find((one) => existsSync(join(top, one)))
    if (path === undefined) {
      found.faults.push(missingAction(user, folder))
      continue
    }
    if (found.actions.some((one) => one.path === path)) continue
    const file = { path, text: await readFile(join(top, path), 'utf8') }
    found.actions.push(file)
    const { action, faults } = parseAction(file)
    found.faults.push(...faults)
    if (action) await readActions(top, action, found)
  }
}

function missingAction(user: Workflow | Action, folder: string): Fault {
  const steps = 'jobs' in user ? user.jobs.flatMap((job) => job.steps) : user.steps
  const step = steps.find((one) => one.kind === 'action' && one.path === folder)
  const position = step?.position ?? { file: user.path, line: 1, column: 1 }
  return {
    ...position,
    message: `There is no action.yml in ./${folder}.`,
    instead: 'Add it, or correct the path, which is relative to the top of the repository.',
  }
}

function toPath(top: string, from: string, name: string): string {
  const candidates = [resolve(from, name), join(top, name), join(top, workflowsFolder, name)]
  const path = candidates
    .filter((candidate) => existsSync(candidate))
    .map((candidate) => relative(top, candidate))
    .find((candidate) => candidate.startsWith(`${workflowsFolder}/`) && !candidate.includes('..'))
  if (path !== undefined) return path
  throw new UsageError(`${name} is not a file in ${workflowsFolder} of this repository.`)
}

async function list(top: string): Promise<string[]> {
  const names = (await readdir(join(top, workflowsFolder)).catch(ignoreAbsence)) ?? []
  return names
    .filter((name) => /\.ya?ml$/.test(name))
    .sort()
    .map((name) => `${workflowsFolder}/${name}`)
}

function reactsTo({ on }: Workflow, event: TriggerKind): boolean {
  if (event === 'push') return on.push !== undefined
  return event === 'schedule' ? on.schedule.length > 0 : on.dispatch !== undefined
}
