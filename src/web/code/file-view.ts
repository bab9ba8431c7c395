import { toSize } from '#base/format.ts'
import { counted } from '../display-text.ts'
import { icon } from '../icons.ts'
import type { SharedContext, View } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { type CodePlace, codeBar, codeFrame, lastCommitRow } from './code-bar.ts'
import {
  editingFault,
  foldersAbove,
  isTypeable,
  lastNameOf,
  linkedPath,
  type TextFile,
  textOf,
  toQuery,
} from './code-target.ts'
import {
  documentKind,
  documentPlace,
  measure,
  renderDocument,
  renderLines,
} from './document-view.ts'
import { imageTypeOf } from './raw-files.ts'

type ShownFile = CodePlace & { file: OperationValues['getFile'] }
type ReadFile = ShownFile['file']

/** The page of a file: its text with numbered lines, a document, or an image. */
export async function fileView(context: SharedContext, shown: ShownFile): Promise<View> {
  const { tryRead, to, query } = context
  const { repository, rev, path, file } = shown
  const { name } = repository
  const text = file.mode === '120000' ? undefined : textOf(file)
  const [commits, { bar, mayEdit }, content] = await Promise.all([
    tryRead('listCommits', { query: { ...toQuery(file.commit, path), limit: 1 } }),
    codeBar(context, shown),
    contentOf(context, shown, text),
  ])
  const commit = commits?.[0]
  const isShownOtherwise = file.lfs || documentKind(path.path) || imageTypeOf(path.path)
  const isPlain = query.has('plain')
  const isPointer = file.lfs && (isPlain || !file.lfs.isStored)
  const body = html`<h1 class="hidden">${path.path}</h1>
${bar}
<div class="card">${commit && lastCommitRow(context, name, commit)}
<div class="file-head"><span class="soft">${facts(file, text, isPlain)}</span><span class="grow"></span>
${text && isShownOtherwise && html`<a class="button small" href="${to.src(name, rev, path)}${!isPlain && '?plain'}">${viewName(file, isPlain)}</a>`}
<a class="button small" href="${to.raw(name, rev, path)}${isPointer && '?plain'}" rel="nofollow">Raw</a>
${text && html`<a class="button small" href="${to.blame(name, rev, path)}" data-keeps-lines data-key="b" title="Blame (b)" rel="nofollow">Blame</a>`}
<a class="button small" href="${to.log(name, rev, path)}" data-key="l" title="History (l)">History</a>
<a class="button small" href="${to.src(name, file.commit, path)}${isPlain && '?plain'}" data-keeps-lines data-key="y" title="The address of this version (y)">Permalink</a>${mayEdit && changeLinks(context, shown)}</div>
${content}</div>`
  return { ...codeFrame(context, shown, 'file'), body }
}

/** Leads to the forms that change a file. Those whose paths are not UTF-8 are changed with git. */
function changeLinks({ to }: SharedContext, { repository, rev, path, file }: ShownFile) {
  const { name } = repository
  const verb = editingFault(file) === undefined ? 'Edit' : 'Rename'
  return (
    path.pathBase64 === undefined &&
    html`
<span class="actions">${isTypeable(path) && html`<a class="button small" href="${to.edit(name, rev, path)}" data-key="e" title="${verb} (e)">${verb}</a>`}<a class="button small danger" href="${to.delete(name, rev, path)}">Delete</a></span>`
  )
}

/** The other view of a file. */
function viewName({ lfs }: ReadFile, isPlain: boolean): string {
  if (lfs) return isPlain ? 'File' : 'Pointer'
  return isPlain ? 'Rendered' : 'Source'
}

function facts(
  { mode, size, lfs }: ReadFile,
  text: TextFile | undefined,
  isPlain: boolean,
): string {
  if (lfs && !isPlain) return `${toSize(lfs.size)} · Git LFS`
  const parts = [toSize(size)]
  if (text) parts.unshift(counted(measure(text.content).lines, 'line'))
  if (text && text.encoding !== 'utf-8') parts.push(`shown as ${text.encoding.toUpperCase()}`)
  if (mode === '100755') parts.push('executable')
  if (lfs) parts.push('pointer of Git LFS')
  return parts.join(' · ')
}

async function contentOf(
  context: SharedContext,
  shown: ShownFile,
  text: TextFile | undefined,
): Promise<Html> {
  const { to, query } = context
  const { repository, rev, path, file } = shown
  const { name } = repository
  const isPlain = query.has('plain')
  if (file.mode === '120000') return linkTarget(context, shown)
  if (file.size === 0) return html`<p class="empty soft">This file is empty.</p>`
  if (file.lfs && !file.lfs.isStored && !isPlain) return missingObject
  if (imageTypeOf(path.path) !== undefined && !(isPlain && text))
    return html`<p class="picture"><img src="${to.raw(name, rev, path)}" alt="${lastNameOf(path)}"></p>`
  if (file.lfs && !isPlain) return download(context, shown, 'This file is in Git LFS.')
  if (file.content === null) return download(context, shown, 'This file is too large to show.')
  if (!text) return download(context, shown, 'This is a binary file.')
  const kind = documentKind(path.path)
  if (kind && !isPlain) {
    const folder = foldersAbove(path).at(-1)?.path ?? ''
    const place = documentPlace(context, name, rev, folder)
    const document = await renderDocument(context, text, {
      kind,
      place,
      fileName: lastNameOf(path),
    })
    if (document) return document
  }
  const lines = await renderLines(context, text, lastNameOf(path))
  return lines ?? download(context, shown, 'This file has too much text to show.')
}

const missingObject = html`<div class="empty">${icon('warning', 'large')}<p>This file is in Git LFS, and the repository does not have its object.</p></div>`

function download({ to }: SharedContext, { repository, rev, path }: ShownFile, why: string): Html {
  return html`<div class="empty">${icon('file', 'large')}<p>${why}</p>
<p class="actions"><a class="button" href="${to.raw(repository.name, rev, path)}" rel="nofollow">${icon('download')}Download</a></p></div>`
}

/** Where a symbolic link leads: a link if that is within the repository. */
function linkTarget({ to }: SharedContext, { repository, rev, path, file }: ShownFile): Html {
  const target = file.content ?? ''
  const folders = foldersAbove(path).map((folder) => folder.name)
  const linked = file.encoding === 'utf-8' ? linkedPath(folders, target) : undefined
  return html`<p class="empty">${icon('link')} Symbolic link to ${linked === undefined ? html`<code>${target}</code>` : html`<a href="${to.src(repository.name, rev, linked)}">${target}</a>`}</p>`
}
