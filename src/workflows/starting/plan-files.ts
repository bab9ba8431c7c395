import type { Checker } from '#actions/workflow-parser/checker.ts'
import type { Workflow } from '#actions/workflow-parser/workflow.ts'
import { gitCommands } from '#git/process/commands.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import type { CommitFiles } from '../commits/commit-files.ts'
import { describeFaults, readSources } from '../commits/workflow-sources.ts'
import type { RunSpec } from './create-run.ts'
import { createNameMask, type PlannedRun } from './planned-runs.ts'

export type PlanDependencies = {
  checker: Checker
  /** Opens the secrets of a repository. */
  openSecrets: (repositoryId: string) => Promise<Record<string, string>>
  baseUrl: () => string
}

type FilesToPlan = {
  commit: CommitFiles
  paths: readonly string[]
  /** What the runs have in common. */
  fields: Omit<RunSpec, 'sources' | 'mask'>
  /** Whether an invalid file makes a failed run. */
  isReported: (path: string) => boolean
  /** Whether a valid file starts a run. */
  isStarted: (workflow: Workflow) => Promise<boolean>
  /** The inputs of its run, or why there can be none. */
  inputsFor?: (workflow: Workflow) => { values: RunSpec['inputs'] } | { fault: string }
}

/** Plans one run for each of the files that are started, and returns all valid workflows. Throws `workflow_not_found`. */
export async function planFiles(
  { checker, openSecrets }: Pick<PlanDependencies, 'checker' | 'openSecrets'>,
  { commit, paths, fields, isReported, isStarted, inputsFor }: FilesToPlan,
): Promise<{ planned: PlannedRun[]; workflows: Workflow[] }> {
  const planned: PlannedRun[] = []
  const workflows: Workflow[] = []
  for (const path of paths) {
    const sources = await readSources(checker, commit, [path])
    const [workflow] = sources.workflows
    const fail = (fault: string) => planned.push({ failed: { ...fields, files: [path], fault } })
    if (sources.faults.length > 0 || !workflow) {
      if (isReported(path)) fail(describeFaults(sources.faults))
      continue
    }
    workflows.push(workflow)
    if (!(await isStarted(workflow))) continue
    const inputs = inputsFor?.(workflow) ?? { values: {} }
    if ('fault' in inputs) {
      fail(inputs.fault)
      continue
    }
    // Masking would show which of the texts that a stranger writes are secrets.
    const mask = fields.restriction
      ? (text: string) => text
      : await createNameMask(openSecrets, fields.repository.id, sources)
    planned.push({ start: { ...fields, inputs: inputs.values, sources, mask } })
  }
  return { planned, workflows }
}

// As on GitHub.
const skipPattern = /\[(skip ci|ci skip|no ci|skip actions|actions skip)\]/i

/** Whether a message asks for no runs, in a word or as a trailer, `skip-checks: true`. */
export function skipsRuns(message: string): boolean {
  if (skipPattern.test(message)) return true
  const [, ...paragraphs] = message.trim().split(/\r?\n[ \t]*\r?\n/)
  const trailers = paragraphs.at(-1)?.split('\n') ?? []
  return trailers.some((line) => /^skip-checks:[ \t]*true$/i.test(line.trim()))
}

export type ChangedPaths = string[] | 'unknown'

const changesMaxBytes = 4 * 1024 * 1024
// A small tree can contain itself many times.
const changesLimits = { memoryMaxBytes: 512 * 1024 * 1024, fileMaxBytes: 2 ** 40 }

/** The paths that differ between two commits. The first may have been pruned; too many count as all. */
export async function changedPaths(
  git: Git,
  directory: string,
  { before, after }: { before: string; after: string },
): Promise<ChangedPaths> {
  const command = gitCommands.listChanges(directory, before, after)
  const output = await git
    .runUpTo(changesMaxBytes, command, { limits: changesLimits })
    .catch((error) => {
      if (error instanceof GitError) return undefined
      throw error
    })
  if (output === undefined) return 'unknown'
  return output
    .toString()
    .split('\0')
    .filter((path) => path !== '')
}
