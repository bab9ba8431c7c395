import type { Principal } from '#access/principal.ts'
import { maskAndShorten } from '#actions/secret-masking/mask-and-shorten.ts'
import { proposedRefs } from '#actions/workflow-engine/contexts.ts'
import type { TriggerKind } from '#actions/workflow-engine/plan.ts'
import type { Scope } from '#actions/workflow-parser/expressions/scope.ts'
import type { InputValue } from '#actions/workflow-parser/reading/given-inputs.ts'
import { isBuiltInLabel, isForeignLabel } from '#actions/workflow-parser/runner-labels.ts'
import type { Workflow } from '#actions/workflow-parser/workflow.ts'
import { toSize } from '#base/format.ts'
import { newId } from '#base/ids.ts'
import type { Json } from '#base/json.ts'
import { Problem } from '#base/problem.ts'
import { fullNameOf, fullOwnerOf } from '#base/repository-name.ts'
import { shortRef } from '#base/short-ref.ts'
import type { Sources } from '../commits/workflow-sources.ts'
import { grantsOf } from '../credentials/job-tokens.ts'
import type { NewRun } from '../run-store.ts'
import { evaluateRunNames } from './run-names.ts'

/** Everything that a run is created from. */
export type RunSpec = {
  repository: { id: string; name: string; owner: string }
  actor: Pick<Principal, 'id' | 'username'>
  event: TriggerKind
  /** The full ref, and the commit that it points to. */
  ref: string
  commit: string
  inputs: Record<string, string | number | boolean>
  payload: { [key: string]: Json }
  sources: Sources
  /** The server on which a push waits for the run, and the pack of its commit; undefined when none does. */
  awaited?: { by: string; pack: object | undefined }
  /** Set for a commit of a user who may not push: the run has no secrets, and changes nothing. */
  restriction?: Restriction | undefined
  /** Masks secrets in the name, the labels and the concurrency groups. */
  mask: (text: string) => string
}

/** Whether a restricted run stays queued until a user who may push approves it. */
export type Restriction = { needsApproval: boolean }

/** A run to be queued, with its concurrency groups; `cancels` are those with `cancel-in-progress`. */
type NewQueuedRun = { run: NewRun; groups: string[]; cancels: string[] }

const nameMaxLength = 250
// They are in the row of the run, and in the memory of its runner.
const sourcesMaxBytes = 4 * 1024 * 1024

/**
 * Creates the row of a run. Throws an ExpressionError when its name or its groups cannot be evaluated, and
 * `workflow_invalid` when its jobs have too many different permissions, or its files are too large together.
 */
export async function createRun(spec: RunSpec, now: number, number: number): Promise<NewQueuedRun> {
  const { sources, repository, actor, restriction } = spec
  const { workflows } = sources
  const scope = scopeOf(spec, number)
  const { names, groups, cancels, labels } = evaluateRunNames(sources, scope, spec.mask)
  return {
    run: {
      ...initialState,
      id: newId(now),
      repositoryId: repository.id,
      number,
      name: shortName([...new Set(names)].join(', '), spec.mask),
      branch: shortRef(spec.ref),
      ref: spec.ref,
      commitId: spec.commit,
      event: spec.event,
      payload: JSON.stringify(spec.payload),
      inputs: JSON.stringify(spec.inputs),
      files: JSON.stringify(sources.files.map(({ path }) => path)),
      sources: toSourcesText(sources),
      labels: JSON.stringify(labels.filter(isSpecificLabel)),
      secretNames: restriction ? '[]' : secretNamesOf(workflows),
      isRestricted: restriction ? 1 : 0,
      needsApproval: restriction?.needsApproval ? 1 : 0,
      grants: JSON.stringify(grantsOf(workflows, sources.calledWorkflows)),
      causeId: actor.id,
      actorId: actor.id,
      actorUsername: actor.username,
      status: 'queued',
      createdAt: now,
      queuedAt: now,
      awaitedBy: spec.awaited?.by ?? null,
      awaitedPack: spec.awaited?.pack ? JSON.stringify(spec.awaited.pack) : null,
    },
    ...groupsOf(spec, { groups, cancels }),
  }
}

/** The groups of a run. Those of the queue are of one commit: trials of others must not cancel its runs. */
function groupsOf(spec: RunSpec, { groups, cancels }: { groups: string[]; cancels: string[] }) {
  if (spec.restriction) return restrictedGroups(spec, groups)
  const ofTrial = spec.event === 'merge_group' ? `Trial ${spec.ref} group ` : ''
  const named = (names: readonly string[]) => names.map((name) => storable(ofTrial + name))
  return { groups: named(groups), cancels: named(cancels) }
}

/**
 * The groups of a restricted run, which are no group of any other run, as their names begin with a capital letter: one that
 * was not approved cancels none. Of each file, a change has one such run that has not ended.
 */
function restrictedGroups({ ref, sources }: RunSpec, groups: readonly string[]) {
  const change = `Restricted ${ref.replace(/\/\d+$/, '')}`
  const files = sources.files.map(({ path }) => `${change} file ${path}`)
  const named = groups.map((group) => storable(`${change} group ${group}`))
  return { groups: [...files, ...named], cancels: files }
}

function toSourcesText({ files, actions, called }: Sources): string {
  const bytes = [...files, ...actions, ...called].reduce(
    (sum, { text }) => sum + Buffer.byteLength(text),
    0,
  )
  if (bytes <= sourcesMaxBytes) return JSON.stringify({ files, actions, called })
  const detail = `The workflow files of the run, with the actions and workflows that they use, have ${toSize(bytes)} together; the maximum is ${toSize(sourcesMaxBytes)}. Run fewer files at a time, or move long scripts into files of their own.`
  throw new Problem('workflow_invalid', detail)
}

const initialState = {
  conclusion: null,
  startedAt: null,
  completedAt: null,
  cancelReason: null,
  cancelledAt: null,
  tokenHash: null,
} as const

/** Creates the row of a run that failed before it started because a file is invalid. */
export async function createFailedRunRow(
  spec: Omit<RunSpec, 'sources' | 'mask'> & { files: string[]; fault: string },
  now: number,
  number: number,
): Promise<NewRun> {
  const sources: Sources = {
    files: [],
    actions: [],
    called: [],
    workflows: [],
    calledWorkflows: [],
    skipped: {},
    faults: [],
    notes: [],
  }
  const { run } = await createRun({ ...spec, sources, mask: identity }, now, number)
  return {
    ...run,
    name: shortName(spec.files.join(', '), identity),
    files: JSON.stringify(spec.files),
    status: 'completed',
    conclusion: 'failure',
    fault: storable(spec.fault),
    startedAt: now,
    completedAt: now,
  }
}

function shortName(name: string, mask: RunSpec['mask']): string {
  return maskAndShorten(name, { mask: (text) => storable(mask(text)), maxLength: nameMaxLength })
}

// Jobs with labels of other systems are skipped, so no runner needs them.
function isSpecificLabel(label: string): boolean {
  return !isBuiltInLabel(label) && !isForeignLabel(label)
}

const identity = (text: string) => text

// PostgreSQL cannot store NUL.
function storable(text: string): string {
  return text.replaceAll('\0', '\u{fffd}')
}

function scopeOf(spec: RunSpec, number: number): Scope {
  const { repository, actor, ref, commit, event, payload, inputs } = spec
  return {
    contexts: {
      github: {
        event_name: event,
        event: payload,
        ref,
        ref_name: shortRef(ref),
        ref_type: ref.startsWith('refs/tags/') ? 'tag' : 'branch',
        sha: commit,
        actor: actor.username,
        triggering_actor: actor.username,
        repository: fullNameOf(repository),
        repository_owner: fullOwnerOf(repository),
        run_number: String(number),
        run_attempt: '1',
        workflow: spec.sources.workflows[0]?.name ?? '',
        ...proposedRefs(spec),
      },
      inputs,
      vars: {},
    },
    status: { success: true, failure: false, cancelled: false },
    hashFiles: () => '',
  }
}

function secretNamesOf(workflows: Workflow[]): string | null {
  const lists = workflows.map(({ secrets }) => secrets)
  if (!lists.every((list) => Array.isArray(list))) return null
  return JSON.stringify([...new Set(lists.flat())])
}

// As on GitHub.
const inputsMaxLength = 65_535

/** A sentence about the inputs of a run when they are too long; undefined when they are not. */
export function inputsFault(inputs: Record<string, InputValue>): string | undefined {
  if (JSON.stringify(inputs).length <= inputsMaxLength) return undefined
  return `The inputs must have at most ${inputsMaxLength} characters in total.`
}
