import { action, type PageContext, page } from '../page.ts'
import type { ReadOperation } from '../read-operations.ts'
import { additionInput, deletionInput, editingInput, typedPath } from './edit-inputs.ts'
import { additionView, deletionView, editingView } from './edit-views.ts'
import { branchTarget } from './edited-place.ts'

/** Of a text of the most characters: each may take three bytes, and each byte three characters of a form. */
const bodyMaxBytes = 2.5 * 1024 * 1024

const operations: [ReadOperation, ...ReadOperation[]] = [
  'getRepository',
  'listCommits',
  'getFile',
  'getTree',
  'checkAccess',
]

/** Who may not push proposes a commit; the forms make one on a branch by another operation. */
const operation = 'proposeCommit'

const shown = { weight: 'git', audience: 'members', styles: 'edit' } as const

/** The forms that change a file or folder of a branch. */
export const editPages = [
  page('/r/:name/edit/:target*', operations, { ...shown, show: editingView }),
  action('/r/:name/edit/:target*', operation, {
    formPage: '/r/:name/edit/:target*',
    bodyMaxBytes,
    input: editingInput,
    redirectTo: toChangedPlace,
  }),
  page('/r/:name/new/:target*', operations, { ...shown, show: additionView }),
  action('/r/:name/new/:target*', operation, {
    formPage: '/r/:name/new/:target*',
    bodyMaxBytes,
    input: additionInput,
    redirectTo: toChangedPlace,
  }),
  page('/r/:name/delete/:target*', operations, { ...shown, show: deletionView }),
  action('/r/:name/delete/:target*', operation, {
    formPage: '/r/:name/delete/:target*',
    input: deletionInput,
    redirectTo: (context, value) =>
      toChange(context, value) ??
      context.to.commit(context.params.name ?? '', madeCommit(value).id),
  }),
]

function toChangedPlace(context: PageContext, value: unknown): string {
  const { to, params, fields } = context
  const change = toChange(context, value)
  if (change !== undefined) return change
  const path = typedPath(fields, branchTarget(context).path.path)
  return to.src(params.name ?? '', madeCommit(value).branch, path)
}

/** The page of the change that a form has made; undefined if it made a commit on a branch. */
function toChange({ to, params, fields }: PageContext, value: unknown): string | undefined {
  if (fields.get('to') !== 'change') return undefined
  // The server's own response, whose schema is that of the operation.
  return to.of(params.name ?? '', `changes/${(value as { number: number }).number}`)
}

/** The server's own response, whose schema is that of the operation. */
function madeCommit(value: unknown) {
  return value as { id: string; branch: string }
}
