import { toSize } from '#base/format.ts'
import { isObjectId } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { invalid } from '#http/validation.ts'
import { editedMaxBytes, toQuery } from '../code/code-target.ts'
import type { PageContext } from '../page.ts'
import { fieldText } from '../page-forms.ts'
import { branchTarget, type EditedPlace, findPlace, headOf, placeTarget } from './edited-place.ts'
import { toContent } from './edited-text.ts'

/** Where the path of the form is in the request. */
export const pathPointer = 'changes/0/path'
export const contentPointer = 'changes/0/content'
/** The id of what is not there. */
export const absentId = 'none'

/** The branch that a commit is made on, and the commit that it follows; undefined in an empty repository. */
type Base = {
  commit: string | undefined
  /** Whether it is the branch of the page, which others may have changed meanwhile. */
  isOfPage: boolean
  operation: 'createCommit' | 'proposeCommit'
  branch: { branch: string; start?: string; expectedHead?: string }
}

/** The commit of a form that edits a file, or renames a file or folder. */
export async function editingInput(context: PageContext) {
  const { fields } = context
  const { rev, path: former } = placeTarget(context)
  const base = await baseOf(context, rev)
  const path = typedPath(fields, former.path)
  const isMoved = path !== former.path
  const message = messageOf(fields, isMoved ? `Rename ${former.path} to ${path}` : `Edit ${path}`)
  const sent = fields.get('content')
  if (sent === null) {
    // What others have changed in it meanwhile is moved, too.
    if (!isMoved) throw pathFault('Nothing has changed: give another path.')
    const body = { ...base.branch, message, changes: [{ path, moveFrom: former.path }] }
    return { operation: base.operation, body }
  }
  const found = await findUnchanged(context, base)
  const content = contentOf(sent, found?.text)
  const change = { path, content, ...(isMoved && found && { moveFrom: former.path }) }
  const body = { ...base.branch, message, changes: [change] }
  return { operation: base.operation, body }
}

/** The commit of a form with a new file. */
export async function additionInput(context: PageContext) {
  const { fields } = context
  const { rev } = branchTarget(context)
  const { commit, operation, branch } = await baseOf(context, rev)
  const path = typedPath(fields)
  if (commit !== undefined && (await hasFile(context, commit, path)))
    throw pathFault('There is a file with this path already: open it to edit it.')
  const change = { path, content: contentOf(fields.get('content') ?? '') }
  const body = { ...branch, message: messageOf(fields, `Add ${path}`), changes: [change] }
  return { operation, body }
}

/** The commit of a form that deletes a file or folder. */
export async function deletionInput(context: PageContext) {
  const { fields } = context
  const { rev, path } = placeTarget(context)
  const base = await baseOf(context, rev)
  await findUnchanged(context, base)
  const message = messageOf(fields, `Delete ${path.path}`)
  const body = { ...base.branch, message, changes: [{ path: path.path, delete: true }] }
  return { operation: base.operation, body }
}

/** The path of a form without spaces around it, which one that is not changed may have. */
export function typedPath(fields: URLSearchParams, former = ''): string {
  const typed = fields.get('path') ?? former
  return typed === former ? former : typed.trim()
}

/** Whether a form makes a commit on another place than its branch: a new branch, or a change. */
export function isElsewhere(fields: URLSearchParams): boolean {
  return ['new', 'change'].includes(fields.get('to') ?? '')
}

async function baseOf(context: PageContext, rev: string): Promise<Base> {
  const { fields } = context
  const name = fieldText(fields, 'newBranch')
  const isNew = fields.get('to') === 'new'
  if (isNew && name === undefined) throw branchFault('Give the new branch a name.')
  if (!isNew && name !== undefined)
    throw branchFault('Choose the new branch above, or leave its name empty.')
  if (isElsewhere(fields)) {
    const start = fields.get('head') ?? ''
    if (!isObjectId(start)) throw branchFault('There is no commit that it could start at.')
    const operation = isNew ? 'createCommit' : 'proposeCommit'
    return { commit: start, isOfPage: false, operation, branch: { branch: name ?? rev, start } }
  }
  const commit = await headOf(context, rev)
  const branch = { branch: rev, expectedHead: commit ?? zeroId }
  return { commit, isOfPage: true, operation: 'createCommit', branch }
}

/** What the form changes. Throws `ref_moved` if it is not what the form was opened with, or what it is to replace. */
async function findUnchanged(
  context: PageContext,
  { commit, isOfPage }: Base,
): Promise<EditedPlace | undefined> {
  const { fields } = context
  const { path } = placeTarget(context)
  const found = commit === undefined ? undefined : await findPlace(context, commit, path)
  const known = [fields.get('id'), fields.get('replace')]
  if (!isOfPage || known.includes(found?.id ?? absentId)) return found
  const change = found ? 'has changed' : 'was deleted or renamed'
  const detail = `"${path.path}" ${change} since you opened this page, so nothing was committed.`
  throw new Problem('ref_moved', detail)
}

/** Whether a commit has a file at a path, whose form the API checks later. */
function hasFile({ tryRead }: PageContext, rev: string, path: string): Promise<boolean> {
  const found = tryRead('getFile', { query: toQuery(rev, { path }) })
  return found.then(
    (file) => file !== undefined,
    (error) => {
      if (error instanceof Problem && error.code === 'invalid_request') return false
      throw error
    },
  )
}

function contentOf(sent: string, former = ''): string {
  const content = toContent(sent, former)
  if (Buffer.byteLength(content) <= editedMaxBytes) return content
  const detail = `has more than ${toSize(editedMaxBytes)}: change it with git.`
  throw invalid([{ pointer: `/${contentPointer}`, detail }])
}

function messageOf(fields: URLSearchParams, usual: string): string {
  const summary = fieldText(fields, 'summary') ?? usual
  const description = fieldText(fields, 'description')?.replace(/\r\n?/g, '\n')
  return description === undefined ? summary : `${summary}\n\n${description}`
}

function pathFault(detail: string): Problem {
  return invalid([{ pointer: `/${pathPointer}`, detail }])
}

function branchFault(detail: string): Problem {
  return invalid([{ pointer: '/branch', detail }])
}
