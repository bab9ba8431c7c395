import type { Links } from '../links.ts'
import type { OperationValues } from '../read-operations.ts'
import type { Html } from '../render/html.ts'
import type { AnnotationsByLine } from './annotation-view.ts'

export type ShownDiff = NonNullable<OperationValues['getCommit']['diff']>
export type ShownFile = ShownDiff['files'][number]

/** Highlighted lines by hunk, by the index of the line; undefined for those to show as text. */
export type DiffHighlights = ReadonlyMap<
  ShownFile['hunks'][number],
  readonly (string | undefined)[]
>

/** What people say of the lines and files of a diff. */
export type DiffReview = {
  /** A link to the form that comments on a line of a side; nothing where there can be no comments. */
  commentLink: (file: ShownFile, line: { side: 'old' | 'new'; number: number }) => Html | undefined
  /** What is shown below a line, by its numbers on both sides. */
  below: (
    file: ShownFile,
    numbers: { old?: number | undefined; new?: number | undefined },
  ) => Html[]
  /** What is said of a file as a whole, and of lines of it that have not been shown. */
  ofFile: (file: ShownFile) => Html
}

export type DiffContext = {
  to: Links
  name: string
  /** Revisions of both sides; null for nothing. */
  before: string | null
  after: string
  isSplit: boolean
  /** Links to the changes as text. */
  patches: Html
  /** The address of the page with other parameters. */
  here: (changes: Record<string, string | undefined>) => string
  /** The whole new file, if all lines of the only one are shown. */
  wholeFile?: readonly string[] | undefined
  /** The same, highlighted. */
  wholeHighlights?: readonly string[] | undefined
  highlights: DiffHighlights
  /** What runs say about lines of the new side. */
  annotations: AnnotationsByLine
  review?: DiffReview
  /** Whether it is the only file of the page. */
  isAlone: boolean
}

/** The parameters that show a file alone. */
export function fileQuery({
  path,
  pathBase64,
}: Pick<ShownFile, 'path' | 'pathBase64'>): Record<string, string | undefined> {
  return pathBase64 === undefined
    ? { file: path, file64: undefined }
    : { file64: pathBase64, file: undefined }
}
