import { shortRef } from '#base/short-ref.ts'
import { counted, grouped } from '../display-text.ts'
import { idsOf, recentRuns, type ShownCommit } from '../history/commit-parts.ts'
import { commitRow } from '../history/commit-row.ts'
import { refsById } from '../history/refs-by-id.ts'
import type { SharedContext } from '../page.ts'
import { type Html, html } from '../render/html.ts'
import type { ShownPush } from './ref-changes.ts'

const maxBranches = 3
const maxCommits = 10

/** What a push brought to a branch. */
type Brought = {
  branch: string
  commits: ShownCommit[]
  /** The number of all commits; undefined for a history that was not counted. */
  count: number | undefined
  /** How many commits the branch does not have any more. */
  removed: number
  /** The page with all commits. */
  href: string
}

/** The commits that a push brought to its first branches. Those of a new branch are the ones that the default branch has not. */
export async function pushCommits(context: SharedContext, { refs }: ShownPush): Promise<Html> {
  const moved = refs.filter(({ ref, deleted }) => ref.startsWith('refs/heads/') && !deleted)
  const branches = moved.slice(0, maxBranches)
  const all = await Promise.all(branches.map((ref) => readBrought(context, ref)))
  const found = all.filter((one) => one !== undefined)
  const ids = new Set(found.flatMap(({ commits }) => idsOf(commits)))
  const [own, runs] = await Promise.all([refsById(context, [...ids]), recentRuns(context)])
  const { to, time, params } = context
  const row = (commit: ShownCommit) =>
    commitRow(commit, { name: params.name ?? '', to, time, refs: own, runs })
  return html`${found.map(
    (one) => html`<section><h2>${titleOf(one)}</h2>
${one.removed > 0 && html`<p class="soft">${counted(one.removed, 'commit')} that it had before ${one.removed === 1 ? 'is' : 'are'} not part of it any more.</p>`}
${one.commits.length > 0 && html`<ol class="card">${one.commits.map(row)}</ol>`}
${
  one.count !== one.commits.length &&
  html`<p class="soft">Only the newest ${grouped(one.commits.length)} are listed. <a class="linked" href="${one.href}">Show all</a></p>`
}</section>`,
  )}`
}

function titleOf({ branch, commits, count }: Brought): Html {
  const name = html`<b>${branch}</b>`
  if (count === undefined) return html`Commits of ${name}`
  return html`${commits.length === 0 ? 'No new commits' : counted(count, 'new commit')} on ${name}`
}

async function readBrought(
  { tryRead, read, to, params }: SharedContext,
  { ref, before, after, created }: ShownPush['refs'][number],
): Promise<Brought | undefined> {
  const name = params.name ?? ''
  const branch = shortRef(ref)
  const { defaultBranch } = await read('getRepository')
  if (created && branch === defaultBranch) {
    const query = { rev: after, limit: maxCommits + 1 }
    const commits = await tryRead('listCommits', { query })
    const shown = commits?.slice(0, maxCommits)
    const count = commits?.length === shown?.length ? shown?.length : undefined
    return shown && { branch, commits: shown, count, removed: 0, href: to.log(name, after) }
  }
  const base = created ? defaultBranch : before
  const compared = await tryRead('compareCommits', {
    query: { base, head: after, limit: maxCommits, diff: false },
  })
  if (!compared) return undefined
  const { commits, ahead: count, behind } = compared
  const removed = created ? 0 : behind
  return { branch, commits, count, removed, href: to.compare(name, base, after) }
}
