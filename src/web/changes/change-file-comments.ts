import { counted } from '../display-text.ts'
import type { DiffReview, ShownDiff, ShownFile } from '../history/diff-context.ts'
import type { PageContext } from '../page.ts'
import { areaText, numberOf, type PageForm } from '../page-forms.ts'
import { pager } from '../pager.ts'
import { type Html, html } from '../render/html.ts'
import { changeLink, type ShownChange } from './change-parts.ts'
import {
  type Comment,
  createThreadViews,
  placeLink,
  type Thread,
  toThreads,
} from './thread-view.ts'

/** More of them are on further pages, or with their file alone. */
const pageSize = 200

type Side = 'old' | 'new'
type Version = ShownChange['versions'][number]

/** The version that is shown, and the earlier one that it is compared with instead of its base. */
export type ShownVersions = { version: Version; since: Version | undefined }

/** A line of a diff, or a file without a line. */
type Place = { path: string; side: Side; line?: number | undefined }

type Parts = {
  change: ShownChange
  shown: ShownVersions
  /** The file that is shown alone. */
  file: { path: string } | { pathBase64: string } | undefined
  diff: ShownDiff
  isEditor: boolean
}

/** Comments on the files of a diff, and their forms. */
export type FileComments = {
  review: DiffReview
  /** What is said of files that the diff does not have, and a link to further comments. */
  others: Html
  forms: PageForm[]
}

/** The parameters that stay the same in the addresses of the page of files. */
const kept = ['version', 'from', 'files', 'split', 'file', 'file64', 'lines', 'cursor']

/** The address of the page of files that a form of it leads back to. */
export function filesLink(
  context: Pick<PageContext, 'to' | 'params' | 'query'>,
  { path = '', query = {} }: { path?: string; query?: Record<string, string | undefined> } = {},
): string {
  const same = Object.fromEntries(kept.map((name) => [name, context.query.get(name) ?? undefined]))
  return changeLink(context, { path: `/files${path}`, query: { ...same, ...query } })
}

/** The comment that a form of the page of files makes. */
export function fileComment({ query, fields }: Pick<PageContext, 'query' | 'fields'>) {
  const { path, line } = parsePlace(query.get('comment') ?? '') ?? { path: '' }
  const place = { path, ...(line !== undefined && { line }), side: fields.get('side') ?? '' }
  return { ...place, version: numberOf(fields, 'version'), text: areaText(fields, 'text') }
}

/** Reads the comments on the files of a diff. */
export async function readFileComments(context: PageContext, parts: Parts): Promise<FileComments> {
  const { readPage, query } = context
  const { change, shown, file, diff, isEditor } = parts
  const { value: comments, next } = await readPage('listChangeComments', {
    query: {
      limit: pageSize,
      cursor: query.get('cursor') || undefined,
      ...(file && 'path' in file ? file : { onFiles: true }),
    },
  })
  // A version that is pushed meanwhile does not move the line that a comment is on.
  const pinned = { version: String(shown.version.version) }
  const comment = query.get('comment') ?? ''
  const target = parsePlace(comment)
  const views = await createThreadViews(context, {
    isEditor,
    formAt: (path) =>
      filesLink(context, {
        path: `/comments${path}`,
        query: path === '' ? { ...pinned, comment } : {},
      }),
    editAt: (edit) => filesLink(context, { query: { edit } }),
  })
  const threads = await Promise.all(
    toThreads(comments).map(async (thread) => {
      const place = placeOf(shown, change.version, thread.first)
      const render = await views.thread(thread)
      return { thread, place, here: render(), elsewhere: render(placeLink(context, thread.first)) }
    }),
  )
  const byFile = Map.groupBy(threads, ({ thread }) => thread.first.path ?? '')
  const left = new Set(threads)

  function formOf(place: Place): Html | false {
    const { version, side } = versionOf(shown, place)
    const hidden = html`<input type="hidden" name="version" value="${version}"><input type="hidden" name="side" value="${side}">`
    const form = views.newComment('', { hidden, cancel: filesLink(context) })
    return form && html`<div class="card pad thread">${form}</div>`
  }

  const linkPrefix = filesLink(context, { query: { ...pinned, comment: '' } })
  const linkTo = (place: Place) => linkPrefix + encodeURIComponent(placeText(place))
  let isFormShown = false

  const review: DiffReview = {
    commentLink(file, { side, number: line }) {
      const path = pathOf(file, side)
      if (!views.mayComment || path === undefined) return undefined
      return html`<a class="say" href="${linkTo({ path, side, line })}" aria-label="Comment on line ${line}"></a>`
    },

    below(file, numbers) {
      const shownHere: Html[] = []
      for (const side of ['old', 'new'] as const) {
        const path = pathOf(file, side)
        if (path === undefined || numbers[side] === undefined) continue
        const here = { path, side, line: numbers[side] }
        for (const one of byFile.get(path) ?? [])
          if (isSame(one.place, here) && left.delete(one)) shownHere.push(one.here)
        if (isSame(target, here) && !isFormShown) {
          isFormShown = true
          const form = formOf(here)
          if (form) shownHere.push(form)
        }
      }
      return shownHere
    },

    ofFile(file) {
      const side = file.newId === null ? 'old' : 'new'
      const path = pathOf(file, side)
      if (path === undefined) return html``
      const paths = new Set([path, pathOf(file, 'old') ?? path])
      const own = [...paths]
        .flatMap((one) => byFile.get(one) ?? [])
        .filter((one) => left.delete(one))
      const [onFile, onLines] = [true, false].map((isOfFile) =>
        own.filter(({ thread }) => (thread.first.line === null) === isOfFile),
      )
      const isTarget = !isFormShown && target !== undefined && paths.has(target.path)
      if (isTarget) isFormShown = true
      return html`<div class="file-said">
${views.mayComment && !isTarget && html`<a class="linked" href="${linkTo({ path, side })}">Comment on the file</a>`}
${isTarget && formOf(target)}${onFile?.map((one) => one.elsewhere)}
${onLines && elsewhere(onLines, { where: 'on lines that are not shown here' })}</div>`
    },
  }

  const present = new Set(diff.files.flatMap((one) => [pathOf(one, 'old'), pathOf(one, 'new')]))
  const absent = threads.filter(({ thread }) => !present.has(thread.first.path ?? ''))
  return {
    review,
    others: html`${pager(context, next, { first: 'First comments', next: 'Later comments' })}
${elsewhere(absent, { where: 'on files that do not differ here', isFolded: shown.since !== undefined })}`,
    forms: views.forms,
  }
}

type ShownThread = { thread: Thread; elsewhere: Html }

/** Threads without their lines, unfolded while one of them is open. */
function elsewhere(
  threads: readonly ShownThread[],
  { where, isFolded = false }: { where: string; isFolded?: boolean },
): Html | false {
  if (threads.length === 0) return false
  const isOpen = !isFolded && threads.some(({ thread }) => thread.first.resolvedBy === null)
  return html`<details class="elsewhere"${isOpen && html` open`}><summary>${counted(threads.length, 'thread')} ${where}</summary>
${threads.map((one) => one.elsewhere)}</details>`
}

/** Where a comment is in a diff: on the line of its version, or on the same line of the last one. */
function placeOf(
  { version, since }: ShownVersions,
  last: number,
  { path, side, line, currentLine, version: own }: Comment,
): Place | undefined {
  if (path === null || line === null || side === null) return undefined
  // The base is not shown beside an earlier version.
  if (side === 'new' || !since) {
    if (own === version.version) return { path, side, line }
    if (version.version === last && currentLine !== null) return { path, side, line: currentLine }
  }
  return side === 'new' && own === since?.version ? { path, side: 'old', line } : undefined
}

/** The version that a line of a diff is of, and its side of that. */
function versionOf(
  { version, since }: ShownVersions,
  { side }: Place,
): { version: number; side: Side } {
  const isOfEarlier = side === 'old' && since !== undefined
  return isOfEarlier ? { version: since.version, side: 'new' } : { version: version.version, side }
}

function isSame(one: Place | undefined, other: Place): boolean {
  return one?.path === other.path && one.side === other.side && one.line === other.line
}

/** The path of a file on a side; undefined for one that the API does not take. */
function pathOf({ path, pathBase64, oldPath, oldPathBase64 }: ShownFile, side: Side) {
  const [own, base64] =
    side === 'old' && oldPath !== undefined ? [oldPath, oldPathBase64] : [path, pathBase64]
  return base64 === undefined && !/\p{Cc}/u.test(own) ? own : undefined
}

/** A place in an address: `PATH:LINE`, with `-` before the lines of the old side. */
function placeText({ path, side, line }: Place): string {
  return `${path}:${side === 'old' ? '-' : ''}${line ?? ''}`
}

function parsePlace(text: string): Place | undefined {
  const [, path = '', sign, digits = ''] = /^(.+):(-?)(\d{0,9})$/s.exec(text) ?? []
  if (path === '') return undefined
  const line = digits === '' ? undefined : Number(digits)
  return { path, side: sign === '-' ? 'old' : 'new', line }
}
