import { toSize } from '#base/format.ts'
import { parseLfsPointer } from '#git/objects/lfs-pointers.ts'
import { breakable, grouped, shortId } from '../display-text.ts'
import { copyButton, icon } from '../icons.ts'
import { type Html, html } from '../render/html.ts'
import { type DiffContext, fileQuery, type ShownFile } from './diff-context.ts'
import { hunkRows } from './diff-lines.ts'

type Options = {
  /** Whether its lines are within the limit of the page. */
  isShown: boolean
  maxLines: number
  isOpen: boolean
}

/** A changed file: what happened to it, and its lines. */
export function fileCard(
  file: ShownFile,
  index: number,
  context: DiffContext,
  options: Options,
): Html {
  const { to, name, before, after } = context
  const { path, additions, deletions, status, newMode } = file
  const id = `f${index + 1}`
  const isFile = newMode !== null && newMode !== submodule
  const facts = factsOf(file)
  // Before what is said of lines that it does not show.
  const lines = content(file, id, context, options)
  return html`<section class="card diff-file" id="${id}">
<div class="file-links">
${copyButton(path)}
${isFile && html`<a class="button quiet small" href="${to.src(name, after, file)}">File</a>`}
${before !== null && status !== 'added' && html`<a class="button quiet small wide-only" href="${to.log(name, after, file)}">History</a>`}
</div>
<details${options.isOpen && html` open`}>
<summary>${icon('right')}<h3 class="mono">${
    file.oldPath !== undefined && html`<span class="soft">${breakable(file.oldPath)} → </span>`
  }${breakable(path)}</h3>
<span class="counts">${additions !== null && additions > 0 && html`<span class="good">+${grouped(additions)}</span>`} ${deletions !== null && deletions > 0 && html`<span class="bad">−${grouped(deletions)}</span>`}</span></summary>
${facts.length > 0 && html`<p class="file-facts">${facts.join(' · ')}</p>`}
${context.review?.ofFile(file)}
${lines}
</details>
</section>`
}

function content(
  file: ShownFile,
  id: string,
  context: DiffContext,
  { isShown, maxLines }: Options,
): Html {
  const { here, isAlone } = context
  const alone = here({ ...fileQuery(file), lines: undefined })
  if (file.isBinary)
    return isImage(file.path)
      ? images(file, context)
      : html`<p class="file-note">Binary files are not compared line by line.</p>`
  if (file.newMode === submodule || file.oldMode === submodule) return submoduleChange(file)
  if (!isShown)
    return html`<p class="file-note">Not shown: the page has its limit of ${grouped(maxLines)} lines, or of length. <a href="${alone}">Show this file</a></p>`
  if (file.hunks.length === 0 && file.truncated === null) return withoutLines(file)
  return html`${isImage(file.path) && images(file, context)}
<table class="diff-lines"><caption class="hidden">Changed lines of ${file.path}</caption>
<colgroup><col class="numbers">${context.isSplit && html`<col>`}<col class="numbers"><col></colgroup><tbody>
${hunkRows(file, id, context, isAlone ? maxLines : Number.POSITIVE_INFINITY)}
</tbody></table>
${file.truncated !== null && html`<p class="file-note">${truncations[file.truncated] ?? 'Some lines are left out.'} ${isAlone ? 'The .diff has all of them.' : html`<a href="${alone}">Show this file alone</a>`}</p>`}`
}

/** What is said of a file without changed lines, unless its facts say all there is. */
function withoutLines(file: ShownFile): Html {
  if (file.status === 'added' || file.status === 'deleted')
    return html`<p class="file-note">The file is empty.</p>`
  return factsOf(file).length > 0 ? html`` : html`<p class="file-note">No lines changed.</p>`
}

const truncations: Record<string, string> = {
  lines: 'Only the first lines are shown: the file has too many changes.',
  bytes: 'Only the first lines are shown: the changes of the file are too large.',
  line: 'Very long lines are cut.',
  response: 'Not all lines are shown: the changes of all files are too large.',
  scan: 'Not all lines are shown: the diff is too large.',
  time: 'Not all lines are shown: the diff took too long.',
}

const submodule = '160000'

function submoduleChange({ oldId, newId }: ShownFile): Html {
  const text = (id: string | null) => (id === null ? 'nothing' : html`<code>${shortId(id)}</code>`)
  return html`<p class="file-note">Submodule: ${text(oldId)} → ${text(newId)}</p>`
}

function factsOf({ status, similarity, oldMode, newMode, hunks }: ShownFile): string[] {
  const facts: string[] = []
  if (status === 'added') facts.push('New file')
  if (status === 'deleted') facts.push('Deleted')
  if (status === 'renamed' || status === 'copied') {
    const word = status === 'renamed' ? 'Renamed' : 'Copied'
    facts.push(similarity === 100 ? `${word} without changes` : `${word}, ${similarity}% similar`)
  }
  if (status === 'type-changed')
    facts.push(`${kindOf(oldMode)} became ${kindOf(newMode)}`.replace(/^a/, 'A'))
  else if (oldMode !== null && newMode !== null && oldMode !== newMode)
    facts.push(
      newMode === '100755'
        ? 'Now executable'
        : oldMode === '100755'
          ? 'No longer executable'
          : `Mode ${oldMode} → ${newMode}`,
    )
  else if (status === 'added' && newMode === '100755') facts.push('Executable')
  if (newMode === '120000' && status !== 'type-changed') facts.push('Symbolic link')
  const lfs = lfsSizes(hunks)
  if (lfs !== undefined) facts.push(`Git LFS: ${lfs}`)
  if (hunks.some(({ rawLines }) => rawLines !== undefined)) facts.push('Some lines are not UTF-8')
  return facts
}

/** The sizes of a file that is in Git LFS, before and after; undefined for others. A pointer is shorter than a hunk. */
function lfsSizes([hunk, ...others]: ShownFile['hunks']): string | undefined {
  if (!hunk || others.length > 0 || hunk.lines.length > maxPointerLines) return undefined
  const [old, new_] = ['-', '+'].map((sign) => {
    const lines = hunk.lines.filter((line) => line.startsWith(sign) || line.startsWith(' '))
    return parseLfsPointer(lines.map((line) => line.slice(1)).join('\n'))
  })
  const sizes = [old, new_].flatMap((pointer) => (pointer ? toSize(pointer.size) : []))
  return sizes.length === 0 ? undefined : [...new Set(sizes)].join(' → ')
}

// Two of three lines each, and what extensions of Git LFS add.
const maxPointerLines = 20

function kindOf(mode: string | null): string {
  if (mode === '120000') return 'a symbolic link'
  return mode === submodule ? 'a submodule' : 'a file'
}

function isImage(path: string): boolean {
  return /\.(png|jpe?g|gif|webp|avif|svg)$/i.test(path)
}

/** Both versions of an image beside one another. */
function images(file: ShownFile, { to, name, before, after }: DiffContext): Html {
  const old = {
    path: file.oldPath ?? file.path,
    ...((file.oldPathBase64 ?? file.pathBase64) !== undefined && {
      pathBase64: file.oldPathBase64 ?? file.pathBase64 ?? '',
    }),
  }
  const figure = (rev: string, path: Parameters<typeof to.raw>[2], caption: string) => {
    const href = to.raw(name, rev, path)
    return html`<figure><a href="${href}"><img src="${href}" alt="${caption} of ${file.path}" loading="lazy"></a><figcaption>${caption}</figcaption></figure>`
  }
  const isBoth = before !== null && file.oldId !== null && file.newId !== null
  return html`<div class="diff-images">${before !== null && file.oldId !== null && figure(before, old, isBoth ? 'Before' : 'Deleted')}
${file.newId !== null && figure(after, file, isBoth ? 'After' : 'New')}</div>`
}

const lockFiles = new Set([
  'package-lock.json',
  'npm-shrinkwrap.json',
  'yarn.lock',
  'pnpm-lock.yaml',
  'Cargo.lock',
  'poetry.lock',
  'uv.lock',
  'composer.lock',
  'Gemfile.lock',
  'go.sum',
  'flake.lock',
])

/** Files that are written by tools and seldom read: their changes are folded. */
export function isLockFile({ path }: Pick<ShownFile, 'path'>): boolean {
  return lockFiles.has(path.slice(path.lastIndexOf('/') + 1))
}
