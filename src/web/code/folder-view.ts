import type { ApiPath } from '#browse/api-path.ts'
import { orNoMessage, shortId } from '../display-text.ts'
import { type IconName, icon } from '../icons.ts'
import { missingLfsNotice } from '../import-progress.ts'
import type { SharedContext, View } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { type CodePlace, codeBar, codeFrame, lastCommitRow } from './code-bar.ts'
import {
  foldersAbove,
  isTypeable,
  linkedPath,
  type TextFile,
  textOf,
  toQuery,
} from './code-target.ts'
import { documentPlace, isMarkdown, renderDocument, renderLines } from './document-view.ts'
import { repositorySide } from './repository-side.ts'
import { submoduleLinks } from './submodule-links.ts'

type Tree = OperationValues['getTree']
type Entry = Tree['entries'][number]
type Folder = Omit<CodePlace, 'path'> & { tree: Tree; next: string | undefined }

const readmeMaxBytes = 512 * 1024

/** The page of a folder: its entries with the commits that last changed them, and its README. */
export async function folderView(context: SharedContext, folder: Folder): Promise<View> {
  const { tryRead, to, query } = context
  const { repository, rev, tree, next } = folder
  const { name, description } = repository
  const path = pathOf(tree)
  const isRoot = path.path === ''
  const place = { repository, rev, path }
  const [commits, runs, { bar, mayEdit }, readme, side, submodules] = await Promise.all([
    tryRead('listCommits', { query: { ...toQuery(tree.commit, path), limit: 1 } }),
    tryRead('listRuns', { query: { limit: 1 } }),
    codeBar(
      context,
      place,
      (mayEdit) =>
        html`${mayEdit && isTypeable(path) && html`<a class="button" href="${to.newFile(name, rev, path)}">${icon('plus')}New file</a>`}<a class="button" href="${to.log(name, rev, path)}" data-key="l" title="History (l)">${icon('history')}History</a>`,
    ),
    readmeOf(context, folder),
    isRoot && repositorySide(context, { repository, rev, tree }),
    readSubmodules(context, folder),
  ])
  const commit = commits?.[0]
  const isFirstPage = !query.has('cursor')
  // Pages of a longer list are each in the order of Git, so that their ends meet.
  const entries = isFirstPage && next === undefined ? foldersFirst(tree.entries) : tree.entries
  const files = html`<h1 class="hidden">${isRoot ? name : path.path}</h1>
${isRoot && description !== '' && html`<p class="soft about">${description}</p>`}
${isRoot && missingLfsNotice(repository)}
${bar}
<div class="card" id="entries"${tree.lastCommitsComplete === false && html` data-again="1000"`}>${commit && lastCommitRow(context, name, commit, runs?.[0])}
<table class="files"><caption class="hidden">Files</caption><colgroup><col><col><col></colgroup><tbody>
${!isRoot && isFirstPage && parentRow(context, name, rev, path)}${entries.map((entry) => entryRow(context, { name, rev, submodules }, entry))}
</tbody></table></div>
${mayEdit && changeLinks(context, place)}${tree.limits.map((limit) => html`<p class="help">${limit}</p>`)}
${next !== undefined && html`<p class="pager"><a class="button" href="${to.src(name, rev, path)}?cursor=${encodeURIComponent(next)}">More files</a></p>`}
<a hidden href="${to.src(name, tree.commit, path)}" data-key="y">Permalink</a>
${readme}`
  return {
    ...codeFrame(context, place, 'tree'),
    body: side ? html`<div class="with-side"><div>${files}</div>${side}</div>` : files,
  }
}

/** Leads to the forms that rename and delete a folder. */
function changeLinks({ to }: SharedContext, { repository: { name }, rev, path }: CodePlace) {
  return (
    path.path !== '' &&
    path.pathBase64 === undefined &&
    html`<p class="help">${isTypeable(path) && html`<a href="${to.edit(name, rev, path)}" data-key="e" title="Rename (e)">Rename</a> or `}<a href="${to.delete(name, rev, path)}">delete</a> this folder.</p>`
  )
}

function foldersFirst(entries: readonly Entry[]): Entry[] {
  const isFolder = ({ type }: Entry) => type === 'folder'
  return [...entries].sort((one, other) => Number(isFolder(other)) - Number(isFolder(one)))
}

function pathOf({ path, pathBase64 }: Tree): ApiPath {
  return pathBase64 === undefined ? { path } : { path, pathBase64 }
}

function parentRow({ to }: SharedContext, name: string, rev: string, path: ApiPath): Html {
  const parent = foldersAbove(path).at(-1)
  return html`<tr><td>${icon('folder', 'folder')}<a href="${to.src(name, rev, parent)}" aria-label="Parent folder">..</a></td><td></td><td></td></tr>`
}

const icons: Record<Entry['type'], IconName> = {
  folder: 'folder',
  file: 'file',
  symlink: 'link',
  submodule: 'module',
}

const kinds: Partial<Record<Entry['type'], string>> = {
  folder: 'Folder',
  symlink: 'Symbolic link',
  submodule: 'Submodule',
}

function entryRow(
  { to, time }: SharedContext,
  { name, rev, submodules }: { name: string; rev: string; submodules: ReadonlyMap<string, string> },
  entry: Entry,
): Html {
  const { type, lastCommit, id } = entry
  const link = submodules.get(entry.path)
  const shown =
    type === 'submodule'
      ? html`${link === undefined ? entry.name : html`<a href="${link}" rel="nofollow noreferrer">${entry.name}</a>`} <code class="soft" title="${id}">@ ${shortId(id)}</code>`
      : html`<a href="${to.src(name, rev, entry)}">${entry.name}</a>`
  return html`<tr><td>${icon(icons[type], type)}${kinds[type] !== undefined && html`<span class="hidden">${kinds[type]} </span>`}${shown}</td><td class="soft cut">${lastCommit && html`<a href="${to.commit(name, lastCommit.id)}">${orNoMessage(lastCommit.summary)}</a>`}</td><td class="soft">${lastCommit && time.age(lastCommit.at)}</td></tr>
`
}

/** The pages of the submodules of a folder, by path. */
async function readSubmodules(
  { tryRead, to, baseUrl }: SharedContext,
  { repository: { name, cloneUrls }, tree }: Folder,
): Promise<ReadonlyMap<string, string>> {
  if (!tree.entries.some(({ type }) => type === 'submodule')) return new Map()
  const file = await tryRead('getFile', { query: { rev: tree.commit, path: '.gitmodules' } })
  const { content = '' } = (file?.mode.startsWith('100') && textOf(file)) || {}
  return submoduleLinks(content, { name, baseUrl, sshUrl: cloneUrls.ssh, to })
}

async function readmeOf(context: SharedContext, { repository, rev, tree }: Folder) {
  const entry = findReadme(tree.entries)
  if (!entry) return undefined
  const { name } = repository
  const { to } = context
  const file = await readThrough(context, tree, entry)
  if (!file) return undefined
  const place = documentPlace(context, name, rev, tree.path)
  const document = isMarkdown(entry.name)
    ? await renderDocument(context, file, { kind: 'markdown', place, fileName: entry.name })
    : undefined
  const shown = document ?? (await renderLines(context, file, entry.name))
  return (
    shown &&
    html`<section class="card readme" aria-label="${entry.name}"><header>${icon('file', 'soft')}<a href="${to.src(name, rev, entry)}">${entry.name}</a></header>${shown}</section>`
  )
}

/** The text of an entry, also of one that is a symbolic link to a file of the repository. */
async function readThrough(
  { tryRead }: SharedContext,
  tree: Folder['tree'],
  entry: Entry,
): Promise<TextFile | undefined> {
  const file = await tryRead('getFile', { query: toQuery(tree.commit, entry) })
  if (file?.lfs) return undefined
  if (file?.mode !== '120000') return file && textOf(file)
  const folders = tree.path === '' ? [] : tree.path.split('/')
  const path = file.encoding === 'utf-8' ? linkedPath(folders, file.content ?? '') : undefined
  const linked = path && (await tryRead('getFile', { query: { rev: tree.commit, path } }))
  return linked && linked.mode !== '120000' && !linked.lfs && linked.size <= readmeMaxBytes
    ? textOf(linked)
    : undefined
}

/** The README among the entries of a folder, in Markdown if there are several. */
export function findReadme<T extends Pick<Entry, 'name' | 'type' | 'size'>>(
  entries: readonly T[],
): T | undefined {
  const found = entries.filter(
    ({ name, type, size }) =>
      (type === 'file' || type === 'symlink') &&
      (size ?? 0) <= readmeMaxBytes &&
      /^readme(\.(md|markdown|txt|rst|adoc))?$/i.test(name),
  )
  return found.find(({ name }) => isMarkdown(name)) ?? found[0]
}
