import { textForm } from '#base/schema-options.ts'
import { isRefName, refNameFault } from '#git/refs/ref-name.ts'
import { invalid } from '#http/validation.ts'

/** What a commit must have before it may be pushed to a protected ref: a successful run of a workflow file, or a status. */
export type Requirement =
  | {
      workflow: string
      /** The full name of a branch or tag: the file of the commit must be the one that is there. */
      from?: string
    }
  | {
      /** The context of a status. */
      status: string
      /** The users who may report it; without it, everyone may. */
      by?: string[]
    }

/** The form of a context. */
export const contextForm = textForm('1 to 200 characters on one line', '^[^\\p{Cc}]{1,200}$')

/** The same in the API and the database, where a file without a ref is just its path. */
export type RequirementValue = string | Requirement

export function toRequirement(value: RequirementValue): Requirement {
  return typeof value === 'string' ? { workflow: value } : value
}

export function toRequirementValue(requirement: Requirement): RequirementValue {
  return 'workflow' in requirement && requirement.from === undefined
    ? requirement.workflow
    : requirement
}

/** Normalizes the path of a workflow file, of which `pointer` is the place. Throws `invalid_request`. */
export type ToWorkflowPath = (file: string, pointer: string) => string

/** Reads the requirements of a request, each once. Throws `invalid_request`. */
export function readRequirements(
  values: readonly RequirementValue[],
  toWorkflowPath: ToWorkflowPath,
): Requirement[] {
  const requirements = values.map((value, index) => {
    const requirement = toRequirement(value)
    if ('status' in requirement) {
      const { status, by } = requirement
      return { status, ...(by && { by: [...new Set(by)] }) }
    }
    const { workflow, from } = requirement
    const pointer = `/requires/${index}${typeof value === 'string' ? '' : '/workflow'}`
    const path = toWorkflowPath(workflow, pointer)
    if (from === undefined) return { workflow: path }
    const isRef = /^refs\/(heads|tags)\//.test(from) && isRefName(from)
    if (!isRef || refNameFault(from) !== undefined) throw notFrom(`/requires/${index}/from`)
    return { workflow: path, from }
  })
  return [...new Map(requirements.map((one) => [JSON.stringify(one), one])).values()]
}

function notFrom(pointer: string) {
  const detail = 'must be the full name of a branch or tag, such as refs/heads/main.'
  return invalid([{ pointer, detail }])
}

/** A commit that is to be pushed to a protected ref. */
export type CandidateCommit = {
  repository: { id: string; name: string }
  /** The id of the commit; another text for one that does not exist yet. */
  commit: string
  /** Finds the ids of objects by their names, such as `main:README`; they may be in quarantine. */
  find: (names: string[]) => Promise<ReadonlyMap<string, string>>
}

/** What a commit does not have. */
export type Missing = {
  /** Whether it is a run of its workflow file, the file that it needs, or a status. */
  kind: 'run' | 'file' | 'status'
  /** When a status was reported that has failed, in milliseconds; undefined for one that is awaited. */
  failedAt?: number | undefined
  /** The object of "needs". */
  what: string
  /** In a sentence, how the commit gets it. */
  how: string
}

/** Finds what a commit does not have of a requirement; undefined when it meets it. */
export type FindMissing = (
  candidate: CandidateCommit,
  requirement: Requirement,
) => Promise<Missing | undefined>
