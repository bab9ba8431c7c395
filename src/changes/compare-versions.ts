import type { Static } from 'typebox'
import { chunksOf } from '#base/chunks.ts'
import { createSemaphore } from '#base/concurrency/semaphore.ts'
import { Problem } from '#base/problem.ts'
import type { ChangeRow, ChangeVersionRow, Db } from '#database/schema.ts'
import { gitCommands } from '#git/process/commands.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import { invalid, ofQuery } from '#http/validation.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { VersionDiffQuery, VersionDiffSchema } from './change-schemas.ts'
import { listChangeVersions } from './change-store.ts'

type VersionDiff = Static<typeof VersionDiffSchema>
type ComparedCommits = VersionDiff['commits']

/** Compares two versions of a change, wherever they are based. Throws `invalid_request` and `git_limit_exceeded`. */
export type CompareVersions = (
  repository: Pick<Repository, 'path'>,
  change: ChangeRow,
  versions: Static<typeof VersionDiffQuery>,
) => Promise<VersionDiff>

type Dependencies = { db: Db; git: Pick<Git, 'start'> }

const outputMaxBytes = 1024 * 1024
const timeoutMs = 10_000
/** Git reads the patches of both versions into memory, and compares each with each. */
const maxAtOnce = 2

export function createCompareVersions({ db, git }: Dependencies): CompareVersions {
  const semaphore = createSemaphore(maxAtOnce)

  async function compare(
    directory: string,
    [before, after]: [ChangeVersionRow, ChangeVersionRow],
    signal: AbortSignal,
  ): Promise<Pick<VersionDiff, 'commits' | 'isCut'>> {
    using _permit = await semaphore.acquire(signal)
    const { baseId, commitId } = after
    const ids = [before.baseId, before.commitId, baseId, commitId] as const
    // Whole ids.
    const config = { 'core.abbrev': 'no' }
    await using child = await git.start(gitCommands.rangeDiff(directory, ...ids), { config })
    child.stdin.end()
    const chunks: Buffer[] = []
    let bytes = 0
    for await (const chunk of chunksOf(child.stdout, signal)) {
      bytes += chunk.length
      chunks.push(chunk)
      if (bytes > outputMaxBytes) return { commits: parseOutput(chunks), isCut: true }
    }
    const ended = await child.ended
    if (ended.exitCode !== 0) throw new GitError('range-diff', ended)
    return { commits: parseOutput(chunks), isCut: false }
  }

  return async ({ path }, change, { from, to }) => {
    const versions = await listChangeVersions(db, change)
    const find = (name: 'from' | 'to', wanted: number) => {
      const found = versions.find(({ version }) => version === wanted)
      if (found) return found
      throw invalid([ofQuery(name, 'is not a version of this change.')])
    }
    const both: [ChangeVersionRow, ChangeVersionRow] = [find('from', from), find('to', to)]
    const signal = AbortSignal.timeout(timeoutMs)
    const compared = await compare(path, both, signal).catch((error) => {
      if (error !== signal.reason) throw error
      const detail = `Comparing the versions took more than ${timeoutMs / 1000} seconds.`
      throw new Problem('git_limit_exceeded', detail)
    })
    const isSame = !compared.isCut && compared.commits.every(({ status }) => status === 'same')
    return { from, to, isSame, ...compared }
  }
}

const parseOutput = (chunks: Buffer[]) => parseRangeDiff(Buffer.concat(chunks).toString('utf8'))

const statuses = { '=': 'same', '!': 'changed', '<': 'removed', '>': 'added' } as const

/** Parses the output of git-range-diff(1): a line for each commit, and below it what differs, indented by four spaces. */
export function parseRangeDiff(output: string): ComparedCommits {
  const commits: ComparedCommits = []
  for (const line of output.split('\n')) {
    const [, before = '', sign = '', after = '', subject = ''] =
      /^ {0,3}(?:\d+|-): +([0-9a-f]+|-+) ([=!<>]) {1,4}(?:\d+|-): +([0-9a-f]+|-+) (.*)$/.exec(
        line,
      ) ?? []
    const last = commits.at(-1)
    if (sign !== '') {
      const toId = (text: string) => (text.startsWith('-') ? null : text)
      const status = statuses[sign as keyof typeof statuses]
      commits.push({ status, from: toId(before), to: toId(after), subject, diff: '' })
    } else if (last && line.startsWith('    ')) last.diff += `${line.slice(4)}\n`
  }
  return commits
}
