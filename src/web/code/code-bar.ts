import { apiPathOf } from '#base/repository-name.ts'
import type { ApiPath } from '#browse/api-path.ts'
import { counted, orNoMessage, shortId, shownName } from '../display-text.ts'
import { icon } from '../icons.ts'
import { encodeRevision } from '../links.ts'
import type { SharedContext, View } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { type RunInList, runMark } from '../run-states.ts'
import { foldersAbove, lastNameOf, toQuery, toShort } from './code-target.ts'
import { refPicker } from './ref-picker.ts'

const maxFolders = 20
const firstFolders = 4
const lastFolders = 8

/** What a page of a folder or file is about. */
export type CodePlace = {
  repository: OperationValues['getRepository']
  rev: string
  path: ApiPath
}

/** The bar above files: the revision, and what there is besides; and whether the reader may change files there. */
export async function codeBar(
  context: SharedContext,
  { repository, rev, path }: CodePlace,
  buttons: (mayEdit: boolean) => Html | undefined = () => undefined,
): Promise<{ bar: Html; mayEdit: boolean }> {
  const { to } = context
  const { name, protectedBranches } = repository
  const { picker, isBranch } = await refPicker(context, { name, rev, path, protectedBranches })
  const mayEdit = isBranch && (await mayCommit(context))
  const bar = html`<div class="code-bar">${picker}<span class="grow"></span>${buttons(mayEdit)}
${path.path === '' && html`<a class="button" href="${to.compareFrom(name, rev)}" rel="nofollow">Compare</a>`}
<a class="button" href="${to.of(name, `find/${encodeRevision(rev)}`)}" data-key="t" title="Find a file (t)">${icon('search')}Find a file</a></div>`
  return { bar, mayEdit }
}

/** Whether the reader may commit, as far as that does not depend on the branch, or propose a commit. */
export async function mayCommit({ isLoggedIn, may }: SharedContext): Promise<boolean> {
  return isLoggedIn && (await may('proposeCommit'))
}

/** The parts of the page of a folder or file besides its body. */
export function codeFrame(
  { to }: SharedContext,
  { repository: { name }, rev, path }: CodePlace,
  operation: 'tree' | 'file',
): Omit<View, 'body'> {
  const { first, hidden, last } = foldMiddle(foldersAbove(path))
  const toCrumb = (folder: PathFolder) => ({ text: folder.name, href: to.src(name, rev, folder) })
  const fold = hidden > 0 ? [{ text: `… ${counted(hidden, 'folder')} …` }] : []
  const folders = [...first.map(toCrumb), ...fold, ...last.map(toCrumb)]
  const isRoot = path.path === ''
  const query = new URLSearchParams(toQuery(rev, path))
  return {
    title: isRoot ? `${name} · svc` : `${path.path} at ${toShort(rev)} · ${name} · svc`,
    repository: name,
    tab: 'code',
    crumbs: isRoot ? [] : [...folders, { text: lastNameOf(path) }],
    json: `${apiPathOf(name)}/${operation}?${query}`,
  }
}

type PathFolder = ReturnType<typeof foldersAbove>[number]

/** The first and last of many, and how many are between them: the addresses of all would grow with the square. */
export function foldMiddle<T>(all: readonly T[]): { first: T[]; hidden: number; last: T[] } {
  if (all.length <= maxFolders) return { first: [...all], hidden: 0, last: [] }
  const hidden = all.length - firstFolders - lastFolders
  return { first: all.slice(0, firstFolders), hidden, last: all.slice(-lastFolders) }
}

type CommitOfRow = OperationValues['listCommits'][number]

/** The newest commit of a folder or file, with the state of its run. */
export function lastCommitRow(
  { to, time }: SharedContext,
  name: string,
  commit: CommitOfRow,
  run?: RunInList,
): Html {
  const { id, author, message } = commit
  const [summary = ''] = message.trimStart().split('\n', 1)
  return html`<header class="last"><b>${shownName(author)}</b><a class="cut grow" href="${to.commit(name, id)}">${orNoMessage(summary)}</a>
${run?.commit === id && runMark(to, name, run)}<code class="soft wide-only">${shortId(id)}</code><span class="soft">${time.age(author.at)}</span></header>`
}
