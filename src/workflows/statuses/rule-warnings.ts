import type { Db } from '#database/schema.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import type { Git } from '#git/process/git-process.ts'
import { type Protection, protectionsOf } from '#repositories/protection-rules.ts'
import type { Requirement } from '#repositories/requirements.ts'
import type { FindRuleWarnings } from '#repositories/rights/protection-routes.ts'
import { hasReported } from './status-store.ts'

type Dependencies = { db: Db; git: Git; directoryOf: (repositoryId: string) => Promise<string> }

export function createFindRuleWarnings({ db, git, directoryOf }: Dependencies): FindRuleWarnings {
  async function describeStatus(
    repositoryId: string,
    { status: context, by }: Extract<Requirement, { status: string }>,
  ): Promise<string | undefined> {
    if (await hasReported(db, { repositoryId, context }, by)) return undefined
    const users = by ? ` by ${by.join(' or ')}` : ''
    return `the status "${context}"${users} has never been reported in this repository`
  }

  return async (repositoryId, rules, inForce) => {
    const required = rules.flatMap((rule) => rule.requires.map((one) => ({ rule, one })))
    if (required.length === 0) return []
    const names = required.flatMap(({ one }) => ('workflow' in one ? [nameOf(one)] : []))
    const files =
      names.length === 0
        ? new Map()
        : await findObjects(git, await directoryOf(repositoryId), [...new Set(names)])
    const sentences: string[] = []
    for (const { rule, one } of required) {
      const why =
        'status' in one
          ? await describeStatus(repositoryId, one)
          : describeFile(one, files, inForce)
      if (why !== undefined) sentences.push(`The rule "${rule.pattern}": ${why}.`)
    }
    return sentences
  }
}

type WorkflowRequirement = Extract<Requirement, { workflow: string }>

function nameOf({ workflow, from = 'HEAD' }: WorkflowRequirement): string {
  return `${from}:${workflow}`
}

function describeFile(
  requirement: WorkflowRequirement,
  files: ReadonlyMap<string, string>,
  inForce: readonly Protection[],
): string | undefined {
  const { workflow, from } = requirement
  if (!files.has(nameOf(requirement)))
    return from === undefined
      ? `the default branch has no ${workflow}, so only pushes that bring it can succeed`
      : `${from} has no ${workflow}, so no push can succeed`
  if (from === undefined || protectionsOf(from, inForce).length > 0) return undefined
  return `${from} is not protected, so all who may push to it decide about ${workflow}`
}
