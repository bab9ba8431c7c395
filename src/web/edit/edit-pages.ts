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

const shown = { weight: 'git', audience: 'members', styles: 'edit' } as const

/** The forms that change a file or folder of a branch. */
export const editPages = [
  page('/r/:name/edit/:target*', operations, { ...shown, show: editingView }),
  action('/r/:name/edit/:target*', 'createCommit', {
    formPage: '/r/:name/edit/:target*',
    bodyMaxBytes,
    input: editingInput,
    redirectTo: toChangedPlace,
  }),
  page('/r/:name/new/:target*', operations, { ...shown, show: additionView }),
  action('/r/:name/new/:target*', 'createCommit', {
    formPage: '/r/:name/new/:target*',
    bodyMaxBytes,
    input: additionInput,
    redirectTo: toChangedPlace,
  }),
  page('/r/:name/delete/:target*', operations, { ...shown, show: deletionView }),
  action('/r/:name/delete/:target*', 'createCommit', {
    formPage: '/r/:name/delete/:target*',
    input: deletionInput,
    redirectTo: ({ to, params }, value) => to.commit(params.name ?? '', madeCommit(value).id),
  }),
]

function toChangedPlace(context: PageContext, value: unknown): string {
  const { to, params, fields } = context
  const path = typedPath(fields, branchTarget(context).path.path)
  return to.src(params.name ?? '', madeCommit(value).branch, path)
}

/** The server's own response, whose schema is that of the operation. */
function madeCommit(value: unknown) {
  return value as { id: string; branch: string }
}
