import { counted, grouped } from '../display-text.ts'
import { icon } from '../icons.ts'
import { type Html, html } from '../render/html.ts'
import type { DiffContext, ShownDiff } from './diff-context.ts'
import { fileCard, isLockFile } from './diff-file.ts'
import { diffTree } from './diff-tree.ts'

const maxFiles = 300
const maxLines = 10_000
/** The length of the HTML after which no more files are shown, in characters. */
const maxLength = 4 * 1024 * 1024
/** The limits that ended git before all was read. */
const limitsOfGit = new Set<string>(['scan', 'time', 'memory'])
/** With fewer files, a tree of them would add nothing. */
const minTreeFiles = 2

/** The changes of one or more commits: a summary, the tree of files, and the changed lines of each. */
export function diffView(diff: ShownDiff, context: DiffContext): Html {
  const { files } = diff
  const { isAlone, isSplit } = context
  let left = maxLines
  let length = 0
  const cards = files.slice(0, maxFiles).map((file, index) => {
    const lines = file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0)
    const isShown = (lines <= left && length < maxLength) || (isAlone && index === 0)
    if (isShown) left -= lines
    const card = fileCard(file, index, context, {
      isShown,
      maxLines,
      isOpen: isAlone || !isLockFile(file),
    })
    length += card.text.length
    return card
  })
  const hasTree = !isAlone && files.length >= minTreeFiles
  return html`<section class="diff${isSplit && ' split'}" aria-label="Changes">
<div class="diff-head"><h2>${countOf(diff)}</h2>${changeBar(diff)}
${files.length > 0 && viewLinks(context)}</div>
${notices(diff, context)}
<div class="diff-parts${hasTree && ' has-tree'}">
${hasTree && diffTree(files, context)}
<div class="diff-files">${cards}</div>
</div>
</section>`
}

function viewLinks({ patches, isSplit, here }: DiffContext): Html {
  return html`<nav class="actions" aria-label="View of the changes">${patches}
<a class="button small${!isSplit && ' primary split-link'}" href="${here({ split: undefined })}"${!isSplit && html` aria-current="true"`}>Unified</a>
<a class="button small split-link${isSplit && ' primary'}" href="${here({ split: '' })}"${isSplit && html` aria-current="true"`}>Split</a>
</nav>`
}

function countOf({ fileCount, files, additions, deletions }: ShownDiff): Html {
  const count = fileCount ?? files.length
  if (count === 0) return html`No changes`
  return html`${fileCount === null && 'At least '}${counted(count, 'changed file')} ${
    additions !== null &&
    deletions !== null &&
    html`<span class="counts"><span class="good">+${grouped(additions)}</span> <span class="bad">−${grouped(deletions)}</span></span>`
  }`
}

/** The shares of added and deleted lines. */
function changeBar({
  additions,
  deletions,
}: Pick<ShownDiff, 'additions' | 'deletions'>): Html | false {
  const all = (additions ?? 0) + (deletions ?? 0)
  if (all === 0) return false
  const good = Math.round(((additions ?? 0) / all) * 60)
  return html`<svg class="change-bar" viewBox="0 0 60 8" width="60" height="8" aria-hidden="true"><rect class="bar-good" width="${good}" height="8"/><rect class="bar-bad" x="${good}" width="${60 - good}" height="8"/></svg>`
}

function notices(
  { files, fileCount, limitsReached, areRenamesLimited }: ShownDiff,
  { isAlone, here }: DiffContext,
): Html[] {
  const texts: Html[] = []
  if (isAlone)
    texts.push(
      html`Only one file is shown. <a href="${here({ file: undefined, file64: undefined, lines: undefined })}">Show all files</a>`,
    )
  const count = fileCount === null ? '' : ` of ${grouped(fileCount)}`
  if (files.length > maxFiles)
    texts.push(
      html`The changes of the first ${grouped(maxFiles)}${count} files are shown. The others are listed; each can be opened alone.`,
    )
  if (limitsReached.includes('files'))
    texts.push(html`Only the first ${grouped(files.length)}${count} files are listed.`)
  if (limitsReached.some((limit) => limitsOfGit.has(limit)))
    texts.push(
      html`The diff is too large to be read to its end, so some counts and lines are missing. Files can be opened alone.`,
    )
  if (areRenamesLimited)
    texts.push(
      html`Too many files were added and deleted to find those that were renamed and changed.`,
    )
  return texts.map((text) => html`<div class="notice">${icon('warning')}<p>${text}</p></div>`)
}
