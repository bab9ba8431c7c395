import { isObjectId } from '#base/object-id.ts'
import { counted, grouped } from '../display-text.ts'
import { icon } from '../icons.ts'
import type { Links } from '../links.ts'
import type { SharedContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'

type OfCommit = OperationValues['listAnnotations'][number]
/** An annotation, of a run or of a commit. */
export type ShownAnnotation = Omit<OfCommit, 'run'>

/** Annotations by the paths of files, and by the lines after which they are shown. */
export type AnnotationsByLine = ReadonlyMap<string, ReadonlyMap<number, readonly OfCommit[]>>

const tones = { error: 'bad', warning: 'busy', notice: 'soft' } as const
const words = { error: 'Error', warning: 'Warning', notice: 'Notice' } as const
const maxListed = 50
/** With more of them the list is folded, so that it does not hide what follows. */
const maxOpen = 6

/** Reads what runs say about a commit; nothing for those who may not see runs. */
export async function readAnnotations(
  { tryRead, isLoggedIn }: SharedContext,
  commit: string,
): Promise<OfCommit[]> {
  if (!isLoggedIn || !isObjectId(commit)) return []
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
  const different = withoutRepeated(annotations)
  if (different.length === 0) return false
  const shown = different.slice(0, maxListed)
  const left = different.length - shown.length
  return html`<section class="card annotations" aria-label="Annotations"><details${different.length <= maxOpen && html` open`}><summary><h2>Annotations</h2> <span class="count">${grouped(different.length)}</span> <span class="soft">${countsByLevel(different)}</span></summary>
<ul>${shown.map(({ one, times }) => html`<li>${annotationText(one, html`${placeOf(one, place)}${times > 1 && html` <span class="soft">${times} times</span>`}`)}</li>`)}</ul>
${left > 0 && html`<p class="soft">${left} more are not shown.</p>`}</details></section>`
}

type Counted = { one: ShownAnnotation; times: number }

/** Each annotation once: the jobs of a matrix often say the same. */
function withoutRepeated(annotations: readonly ShownAnnotation[]): Counted[] {
  const counted = new Map<string, Counted>()
  for (const one of annotations) {
    const { file, line, endLine, level, title, message } = one
    const key = JSON.stringify([file, line, endLine, level, title, message])
    const before = counted.get(key)
    if (before) before.times += 1
    else counted.set(key, { one, times: 1 })
  }
  return [...counted.values()]
}

function countsByLevel(annotations: readonly Counted[]): string {
  const count = (level: ShownAnnotation['level'], word: string) => {
    const found = annotations.filter(({ one }) => one.level === level).length
    return found === 0 ? [] : [counted(found, word)]
  }
  return [
    ...count('error', 'error'),
    ...count('warning', 'warning'),
    ...count('notice', 'notice'),
  ].join(', ')
}

function placeOf(
  { file, line, endLine }: ShownAnnotation,
  { to, name, commit }: Place,
): Html | false {
  if (file === '') return false
  const lines =
    line === null ? '' : endLine === null || endLine === line ? `:${line}` : `:${line}–${endLine}`
  const hash = line === null ? '' : `#L${line}`
  return html` <a class="mono linked" href="${to.src(name, commit, file)}${hash}">${file}${lines}</a>`
}

function annotationText({ level, title, message }: ShownAnnotation, place: Html | false): Html {
  return html`<div class="annotation-text"><span class="${tones[level]}">${icon(level === 'error' ? 'cross' : 'warning')}<b>${title === '' ? words[level] : title}</b></span>${place}
<p>${message}</p></div>`
}
