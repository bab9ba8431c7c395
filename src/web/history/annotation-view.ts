import { type Html, html } from '../../render/html.ts'
import { icon } from '../icons.ts'
import type { Links } from '../links.ts'
import type { SharedContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'

type OfCommit = OperationValues['listAnnotations'][number]
/** An annotation, of a run or of a commit. */
export type ShownAnnotation = Omit<OfCommit, 'run'>

/** Annotations by the paths of files, and by the lines after which they are shown. */
export type AnnotationsByLine = ReadonlyMap<string, ReadonlyMap<number, readonly OfCommit[]>>

const tones = { error: 'bad', warning: 'busy', notice: 'soft' } as const
const words = { error: 'Error', warning: 'Warning', notice: 'Notice' } as const
const maxListed = 50

/** Reads what runs say about a commit; nothing for those who may not see runs. */
export async function readAnnotations(
  { tryRead, isLoggedIn }: SharedContext,
  commit: string,
): Promise<OfCommit[]> {
  if (!isLoggedIn || !/^[0-9a-f]{40}$/.test(commit)) return []
  return (await tryRead('listAnnotations', { query: { commit } })) ?? []
}

export function annotationsByLine(annotations: readonly OfCommit[]): AnnotationsByLine {
  const byFile = Map.groupBy(
    annotations.filter(({ file, line }) => file !== '' && line !== null),
    ({ file }) => file,
  )
  return new Map(
    [...byFile].map(([file, own]) => [
      file,
      Map.groupBy(own, ({ line, endLine }) => endLine ?? line ?? 0),
    ]),
  )
}

/** Rows of a diff below a line. */
export function annotationRows(annotations: readonly OfCommit[], columns: number): Html[] {
  return annotations.map(
    (one) =>
      html`<tr class="fold annotation"><td colspan="${columns}">${annotationText(one, html` <span class="soft">run ${one.run.number}</span>`)}`,
  )
}

type Place = { to: Links; name: string; commit: string }

/** A list of annotations with links to their lines. */
export function annotationList(
  annotations: readonly ShownAnnotation[],
  place: Place,
): Html | false {
  if (annotations.length === 0) return false
  const shown = annotations.slice(0, maxListed)
  const left = annotations.length - shown.length
  return html`<section class="card pad annotations" aria-label="Annotations"><h2>Annotations</h2>
<ul>${shown.map((one) => html`<li>${annotationText(one, placeOf(one, place))}</li>`)}</ul>
${left > 0 && html`<p class="soft">${left} more are not shown.</p>`}</section>`
}

function placeOf(
  { file, line, endLine }: ShownAnnotation,
  { to, name, commit }: Place,
): Html | false {
  if (file === '') return false
  const lines =
    line === null ? '' : endLine === null || endLine === line ? `:${line}` : `:${line}–${endLine}`
  const hash = line === null ? '' : `#L${line}`
  return html` <a class="mono" href="${to.src(name, commit, file)}${hash}">${file}${lines}</a>`
}

function annotationText({ level, title, message }: ShownAnnotation, place: Html | false): Html {
  return html`<div class="annotation-text"><span class="${tones[level]}">${icon(level === 'error' ? 'cross' : 'warning')}<b>${title === '' ? words[level] : title}</b></span>${place}
<p>${message}</p></div>`
}
