import { printable } from '#base/format.ts'
import type { ChangeRow, ChangeVersionRow, Db } from '#database/schema.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { Git } from '#git/process/git-process.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { readRefs } from '#git/refs/refs.ts'
import type { FindUnapproved } from '#git-server/push/proposal.ts'
import { findChange, listChangeVersions } from './change-store.ts'
import { type CodeOwners, codeOwnersFiles, parseCodeOwners } from './code-owners.ts'
import { findQueued } from './queue/queued-store.ts'
import { readBlob } from './read-blob.ts'
import type { CountedVerdict } from './review.ts'

type Dependencies = {
  db: Db
  git: Git
  verdicts: (change: ChangeRow, versions: readonly ChangeVersionRow[]) => Promise<CountedVerdict[]>
  /** The groups of a user. */
  groupsOf: (db: Db, username: string) => Promise<string[]>
}

const pathsMaxBytes = 16 * 1024 * 1024
const maxNamed = 3

/**
 * Finds which approvals changes lack, by the rules of a branch, in sentences. Verdicts count as of this moment, for exactly the
 * version that lands.
 */
export function createFindUnapproved(dependencies: Dependencies): FindUnapproved {
  const { db, git, verdicts, groupsOf } = dependencies

  async function findOf(
    { id: repositoryId, path }: Parameters<FindUnapproved>[0],
    { number, version, by }: Parameters<FindUnapproved>[1]['changes'][number],
    { approvals, codeOwners }: Parameters<FindUnapproved>[2],
  ): Promise<string[]> {
    const change = await findChange(db, { repositoryId, number })
    if (change?.state !== 'open') return [`Change ${number} is not open.`]
    if (change.version !== version) return [`Change ${number} has a newer version.`]
    if (by && !(await findQueued(db, change)))
      return [`Change ${number} is not in the queue any more.`]
    const counted = (await verdicts(change, await listChangeVersions(db, change))).filter(
      ({ counts }) => counts,
    )
    const against = counted.filter(({ verdict }) => verdict === 'request-changes')
    const missing = against.map(({ username }) => `${username} requests changes.`)
    const approving = counted.filter(({ verdict }) => verdict === 'approve')
    if (approving.length < approvals)
      missing.push(
        `It needs ${approvals === 1 ? 'the approval' : `${approvals} approvals`} of ${approvals === 1 ? 'a user' : 'users'} who may push and have not made it, and has ${approving.length}.`,
      )
    // The bases matter only where reviewers must have seen what the merge brings.
    if (approvals === 0 && !codeOwners) return missing
    const { target, commitId } = change
    const tip = (await readRefs(path, [target])).get(target) ?? zeroId
    // Landing on a branch that was deleted is refused anyway.
    if (tip === zeroId) return missing
    const output = await git.run(gitCommands.mergeBases(path, tip, commitId))
    const bases = output.trim().split('\n')
    // Reviewers see the difference to one of them, and a merge may bring more.
    if (bases.length > 1)
      missing.push(
        `It has ${bases.length} merge bases with its branch. Rebase it, and push it again.`,
      )
    if (!codeOwners) return missing
    const range = { tip, base: bases[0] ?? tip, commitId }
    const usernames = approving.map(({ username }) => username)
    return [...missing, ...(await findUnowned(path, range, usernames))]
  }

  /** The paths that a change touches without the approval of one of their owners, as a sentence. */
  async function findUnowned(
    directory: string,
    { tip, base, commitId }: { tip: string; base: string; commitId: string },
    approving: readonly string[],
  ): Promise<string[]> {
    const owners = await readCodeOwners(directory, tip)
    if (!owners) return []
    if (owners === 'unreadable')
      return [
        'The CODEOWNERS of its branch has more than 1 MiB or 5000 rules, so it cannot be read.',
      ]
    const command = gitCommands.listChanges(directory, base, commitId)
    const output = await git.runUpTo(pathsMaxBytes, command)
    if (!output) return ['It changes too many paths to find their owners.']
    const present = new Set(approving)
    for (const username of approving)
      for (const group of await groupsOf(db, username)) present.add(`group:${group}`)
    const unowned = new Map<string, string[]>()
    for (const path of output.toString('utf8').split('\0')) {
      const of = path === '' ? [] : owners.ownersOf(path)
      if (of.length === 0 || of.some((owner) => present.has(owner))) continue
      const names = of.join(' or ')
      unowned.set(names, [...(unowned.get(names) ?? []), path])
    }
    return [...unowned].map(([names, paths]) => {
      const shown = paths.slice(0, maxNamed).map(printable).join(', ')
      const more = paths.length > maxNamed ? `, and ${paths.length - maxNamed} more` : ''
      return `By CODEOWNERS, it needs the approval of ${printable(names)} for ${shown}${more}.`
    })
  }

  /** The first file of the names that CODEOWNERS may have; undefined for none. */
  async function readCodeOwners(
    directory: string,
    tip: string,
  ): Promise<CodeOwners | 'unreadable' | undefined> {
    const names = codeOwnersFiles.map((file) => `${tip}:${file}`)
    const found = await findObjects(git, directory, names)
    for (const name of names) {
      const id = found.get(name)
      const content = id === undefined ? undefined : await readBlob(git, directory, id)
      if (content === 'large') return 'unreadable'
      if (content) return parseCodeOwners(content.toString('utf8')) ?? 'unreadable'
    }
    return undefined
  }

  return async (repository, landing, rule) => {
    const missing: string[] = []
    for (const change of landing.changes) missing.push(...(await findOf(repository, change, rule)))
    return missing
  }
}
