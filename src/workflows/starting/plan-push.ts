import { isRunUsername } from '#access/names.ts'
import {
  createPushBudget,
  matchesPush,
  type PushBudget,
} from '#actions/workflow-parser/match-triggers.ts'
import { readInputs } from '#actions/workflow-parser/reading/given-inputs.ts'
import type { Workflow } from '#actions/workflow-parser/workflow.ts'
import { once } from '#base/once.ts'
import type { PushRunOptions } from '#database/schema.ts'
import { pushPayload } from '#events/github-payloads/push-payload.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import type { Git } from '#git/process/git-process.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import type { PushedUpdate, RefUpdate } from '#git/refs/refs.ts'
import { readPayloadContext } from '#repositories/payload-context.ts'
import type { RepositorySummary } from '#repositories/repository-summary-store.ts'
import { openCommit } from '../commits/commit-files.ts'
import { inputsFault, type RunSpec } from './create-run.ts'
import {
  type ChangedPaths,
  changedPaths,
  type PlanDependencies,
  planFiles,
  skipsRuns,
} from './plan-files.ts'
import { type PlannedRun, toStartFields } from './planned-runs.ts'

/** A pushed ref, to plan its runs. */
type PushedRef = {
  repository: RepositorySummary
  directory: string
  /** Sees the objects of the push, as `objects` does. */
  git: Git
  objects: ObjectReader
  update: PushedUpdate
  actor: RunSpec['actor']
  options: PushRunOptions
  /** The files to run, also those that are not for pushes; by default, those that the push starts. */
  files?: string[] | undefined
}

/** The runs of a pushed ref, and the valid workflows of its commit. */
type PlannedPush = { planned: PlannedRun[]; workflows: Workflow[]; isDefault: boolean }

/** Plans the runs of a pushed ref; undefined when it does not point to a commit. Throws `workflow_not_found`. */
export type PlanPush = (pushed: PushedRef) => Promise<PlannedPush | undefined>

export function createPlanPush({ baseUrl, ...parts }: PlanDependencies): PlanPush {
  return async (pushed) => {
    const { repository, directory, git, objects, update, actor, options, files } = pushed
    const commit = await openCommit(objects, update.after)
    // A tag may point to something other than a commit.
    const head = commit.commit
    if (!head) return undefined
    const context = await readPayloadContext(repository, {
      directory,
      sender: actor.username,
      baseUrl: baseUrl(),
    })
    const fields = {
      ...toStartFields(repository, update.ref, head.id, actor),
      event: 'push' as const,
      payload: pushPayload(update, { commits: [head], head }, context),
    }
    // As on GitHub, a run that pushes starts no other one: it would push again.
    const isSkipped =
      options.isSkipped === true || isRunUsername(actor.username) || skipsRuns(head.message)
    const changed = once(() => changedPaths(git, directory, update))
    const mayStart = (file: string) =>
      files !== undefined || (!isSkipped && !wasAwaited(options, update.ref, file))
    const budget = createPushBudget()
    const { planned, workflows } = await planFiles(parts, {
      commit,
      paths: files ?? (await commit.listWorkflows()),
      fields,
      isReported: mayStart,
      isStarted: async (workflow) =>
        files !== undefined ||
        (mayStart(workflow.path) && (await isStarted(workflow, update, { changed, budget }))),
      inputsFor: (workflow) => inputsFor(workflow, options.inputs ?? {}),
    })
    const isDefault = update.ref === `refs/heads/${context.repository.defaultBranch}`
    return { planned, workflows, isDefault }
  }
}

function wasAwaited({ awaited = [] }: PushRunOptions, ref: string, file: string): boolean {
  return awaited.some((run) => run.ref === ref && run.file === file)
}

async function isStarted(
  { on: { push } }: Workflow,
  { ref, before }: RefUpdate,
  { changed, budget }: { changed: () => Promise<ChangedPaths>; budget: PushBudget },
) {
  if (!push) return false
  const isNew = before === zeroId
  const needsPaths = (push.paths || push.pathsIgnore) && !isNew && ref.startsWith('refs/heads/')
  const changedPaths = needsPaths ? await changed() : 'unknown'
  return matchesPush(push, { ref, isNew, changedPaths }, budget)
}

/** The inputs of a push that a workflow declares, with the defaults of its others; none when it declares none of them. */
function inputsFor(
  { path, on }: Workflow,
  given: Record<string, string>,
): { values: RunSpec['inputs'] } | { fault: string } {
  const declared = on.dispatch?.inputs ?? {}
  const own = Object.entries(given).filter(([name]) => Object.hasOwn(declared, name))
  if (own.length === 0) return { values: {} }
  const read = readInputs(declared, Object.fromEntries(own))
  if ('faults' in read)
    return { fault: `${path}: ${read.faults.map(({ message }) => message).join(' ')}` }
  const fault = inputsFault(read.values)
  return fault ? { fault: `${path}: ${fault}` } : read
}
