import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { toSandboxOptions, toStepPath } from '#actions/runner/runner-configuration.ts'
import { createToolset, type Toolset } from '#actions/tool-cache/toolset.ts'
import { scopeOf } from '#actions/workflow-engine/contexts.ts'
import { evaluateEnvironment } from '#actions/workflow-engine/planning/evaluate-settings.ts'
import { combinationsOf } from '#actions/workflow-engine/planning/plan-job.ts'
import {
  findTool,
  requestedVersions,
  type SetupRequest,
} from '#actions/workflow-engine/tool-requests.ts'
import type { Job, Note, SetupStep, Template, Workflow } from '#actions/workflow-parser/workflow.ts'
import { isAbsence } from '#base/absence.ts'
import { findProgram } from '#base/find-program.ts'
import type { Settings } from '#config/settings.ts'

type Machine = {
  settings: Settings
  /** The search path for programs, as in PATH. */
  path: string
}

/** The tools that steps get from `svc run` on this machine. */
export function localToolset({ settings, path }: Machine): Toolset {
  const { readOnlyPaths, toolFolders: folders } = toSandboxOptions(settings)
  const hasSandbox = settings.sandbox !== 'none' && findProgram('bwrap', path) !== undefined
  const isolation = hasSandbox ? 'bubblewrap' : 'none'
  return createToolset({
    folders,
    path: toStepPath({ path, isolation, readOnlyPaths }),
    architecture: process.arch,
  })
}

/**
 * A note for each tool that steps request and this machine lacks. Versions that only a run knows are left out.
 * Versions in files are those of the working tree at `top`.
 */
export async function toolNotes(
  workflows: readonly Workflow[],
  toolset: Toolset,
  top: string,
): Promise<Note[]> {
  const notes: Note[] = []
  for (const { job, step } of workflows.flatMap(setupSteps)) {
    for (const inputs of possibleInputs(job, step)) {
      const fault = await faultOf({ action: step.action, ref: step.ref, inputs }, toolset, top)
      if (fault !== undefined) notes.push({ ...step.position, message: fault })
    }
  }
  return notes
}

function setupSteps({ jobs }: Workflow): { job: Job; step: SetupStep }[] {
  return jobs.flatMap((job) =>
    job.steps.flatMap((step) => (step.kind === 'setup' ? [{ job, step }] : [])),
  )
}

async function faultOf(
  request: SetupRequest,
  toolset: Toolset,
  top: string,
): Promise<string | undefined> {
  const read = (path: string) =>
    readFile(join(top, path), 'utf8').catch((error) => {
      if (isAbsence(error)) return undefined
      throw error
    })
  try {
    const versions = await requestedVersions(request, read)
    for (const version of versions) await findTool(toolset, request, version)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

const contextsOfRuns =
  /\b(github|env|vars|job|jobs|steps|runner|secrets|strategy|needs|inputs|hashFiles)\b/i

/** The inputs of a step for each combination of its job's matrix, if they depend on nothing else. */
function possibleInputs(job: Job, step: SetupStep): Record<string, string>[] {
  const isKnown = (template: Template) =>
    !template.text.includes('${{') || !contextsOfRuns.test(template.text)
  if (!Object.values(step.with).every(isKnown)) return []
  try {
    const combinations = combinationsOf(job.strategy.matrix, scopeOf({})) ?? [undefined]
    return combinations.map((combination) =>
      evaluateEnvironment(step.with, scopeOf({ matrix: combination?.values ?? null })),
    )
  } catch {
    // A matrix that only a run can expand.
    return []
  }
}
