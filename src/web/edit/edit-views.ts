import { isObjectId } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import { invalid } from '#http/validation.ts'
import { type CodePlace, codeFrame, mayCommit } from '../code/code-bar.ts'
import { editedMaxBytes, isTypeable } from '../code/code-target.ts'
import { isMarkdown } from '../code/document-view.ts'
import type { PageTarget } from '../links.ts'
import type { PageContext, View } from '../page.ts'
import { createForm, type PageForm } from '../page-forms.ts'
import { type Html, html } from '../render/html.ts'
import { absentId, contentPointer, isElsewhere, pathPointer } from './edit-inputs.ts'
import { branchTarget, type EditedPlace, findPlace, headOf, placeTarget } from './edited-place.ts'

const contentRows = 24
const pathMaxLength = 4096
const branchMaxLength = 255
const summaryMaxLength = 500
const descriptionMaxLength = 10_000

type Shown = PageTarget & {
  name: string
  form: PageForm
  /** The commit that the branch is at; undefined in an empty repository, or if it cannot be read after a problem. */
  head: string | undefined
  /** What the branch has at the path. */
  place: EditedPlace | undefined
  /** Whether the form has the content of a file. */
  hasContent: boolean
  /** Whether it is the first commit of the repository. */
  isFirst: boolean
  /** Why the reader cannot push to the branch. */
  refusal: string | undefined
  /** Whether the reader can push to other branches. */
  mayPush: boolean
  /** Where the commit that was just sent goes to. */
  sentTo: string | null
}

/** The form that edits a file, or gives a file or folder another path. */
export function editingView(context: PageContext): Promise<View> {
  const target = placeTarget(context)
  const { path } = target
  if (!isTypeable(path))
    throw new Problem('invalid_request', 'The path has a line break: change it with git.')
  return changeView(context, { ...target, action: 'Edit' }, (shown) => {
    const { form, place, hasContent } = shown
    const { fault = 'This is a folder' } = place ?? {}
    return html`${conflictPart(context, shown)}
${pathField(form, { value: path.path, hasFocus: !hasContent })}
${
  hasContent
    ? contentField(form, { path: path.path, text: place?.text, hasFocus: true })
    : html`<p class="help">${fault}: only its path can be changed here.</p>`
}`
  })
}

/** The form of a new file. */
export function additionView(context: PageContext): Promise<View> {
  const target = branchTarget(context)
  const { path } = target.path
  return changeView(context, { ...target, action: 'Add' }, ({ form }) => {
    const value = path === '' ? '' : `${path}/`
    return html`${pathField(form, { value, hasFocus: true, help: 'From the root. Folders that do not exist are created.' })}
${contentField(form, { path: '' })}`
  })
}

/** The form that deletes a file or folder. */
export function deletionView(context: PageContext): Promise<View> {
  const target = placeTarget(context)
  return changeView(context, { ...target, action: 'Delete' }, ({ place }) => {
    const isFolder = place?.kind === 'folder'
    return html`<p>${isFolder ? 'The folder is deleted with all files in it' : 'The file is deleted'} by a commit. The commits before still have ${isFolder ? 'them' : 'it'}.</p>`
  })
}

type Action = 'Edit' | 'Rename' | 'Add' | 'Delete'

/** The page of a form. After a problem, it has all that was sent, also where the repository has changed since. */
async function changeView(
  context: PageContext,
  { rev, path, action }: PageTarget & { action: Action },
  show: (shown: Shown) => Html,
): Promise<View> {
  const { problem, fields, to, url, read, tryRead, may } = context
  const repository = await read('getRepository')
  const { name } = repository
  const frame = { repository, rev, path }
  const mayPush = await may('createCommit')
  if (!problem && !(repository.empty ? mayPush : await mayCommit(context)))
    return toView(
      context,
      { ...frame, action },
      html`<p class="card pad soft">Your role and your token do not allow you to change files here.</p>`,
    )

  /** What the branch has now. */
  async function findPresent() {
    const head = await headOf(context, rev)
    const place =
      action === 'Add' || head === undefined ? undefined : await findPlace(context, head, path)
    return { head, place }
  }

  // After a problem, nothing that cannot be read hides what was typed.
  const attempt = <T>(reading: Promise<T>) => (problem ? reading.catch(() => undefined) : reading)
  const found = await attempt(findPresent())
  const { head, place } = found ?? { head: undefined, place: undefined }
  if (!problem && action !== 'Add' && !place)
    throw new Problem('path_not_found', `There is no "${path.path}" at ${rev}.`)
  const wanted = { action: 'push', refs: [{ ref: rev }] }
  const checked = await attempt(tryRead('checkAccess', { body: wanted }))
  const refusal = checked?.allowed === false ? (checked.detail ?? undefined) : undefined
  const ofForm = { ...context, problem: problem && toFormProblem(problem, context, rev) }
  // The address as it was requested: that of the problem of this form.
  const form = createForm(ofForm, to.api(url.replace(/\?.*/, '')))
  const hasContent = problem ? fields.has('content') : place?.text !== undefined
  const isFirst = repository.empty
  const sentTo = problem ? fields.get('to') : null
  const access = { refusal, mayPush, sentTo }
  const shown = { rev, path, name, form, head, place, hasContent, isFirst, ...access }
  const verb = action === 'Edit' && !hasContent ? 'Rename' : action
  return toView(
    context,
    { ...frame, action: verb },
    form.render(
      html`${hiddenParts(context, shown, action)}
<section class="card pad stack">${show(shown)}</section>
<section class="card pad stack"><h2>Commit</h2>
${commitFields(shown, action === 'Add' ? 'Add PATH' : `${verb} ${path.path}`)}
<div class="actions">${action === 'Delete' ? html`<button class="danger">Delete</button>` : html`<button class="primary">${mayPush ? 'Commit' : 'Propose'}</button>`}
<a class="button quiet" href="${to.src(name, rev, path)}">Cancel</a></div></section>`,
      'stack edit',
    ),
  )
}

function toView(
  context: PageContext,
  { action, ...place }: CodePlace & { action: Action },
  content: Html,
): View {
  const { path, rev, repository } = place
  const { json: _, crumbs = [], ...frame } = codeFrame(context, place, 'file')
  const address = context.to.src(repository.name, rev, path)
  const isAddition = action === 'Add'
  const heading = isAddition ? 'New file' : html`${action} <span class="mono">${path.path}</span>`
  return {
    ...frame,
    title: `${isAddition ? 'New file' : `${action} ${path.path}`} · ${repository.name} · svc`,
    crumbs: [
      ...crumbs.slice(0, -1),
      ...crumbs.slice(-1).map(({ text }) => ({ text, href: address })),
      { text: isAddition ? 'new file' : action.toLowerCase() },
    ],
    // A page that is loaded again loses what was typed.
    live: '',
    body: html`<div class="page-head"><h1>${heading}</h1></div>
${content}`,
  }
}

/** The commit and the object that the form was opened with. */
function hiddenParts(
  { fields }: PageContext,
  { form, head, place }: Shown,
  action: Action,
): Html | undefined {
  const sentId = action === 'Delete' ? null : fields.get('id')
  const id = form.isSent ? (sentId ?? place?.id) : place?.id
  const start = form.isSent ? fields.get('head') : head
  return html`<input type="hidden" name="head" value="${start ?? ''}"><input type="hidden" name="id" value="${id ?? absentId}">`
}

/** Offers to replace what others have changed since the form was opened. */
function conflictPart(context: PageContext, { form, head, place, name, rev }: Shown) {
  const { fields, to } = context
  const present = place?.id ?? absentId
  if (!form.isSent || head === undefined || fields.get('id') === present) return undefined
  if (isElsewhere(fields) || !fields.has('content')) return undefined
  const start = fields.get('head') ?? ''
  return html`${form.checks({
    name: 'replace',
    label: place ? 'The file has changed' : 'The file is gone',
    help: html`${isObjectId(start) && html`<a href="${to.compare(name, start, rev)}" target="_blank" rel="noopener">What has changed since</a>, in another tab. `}Or commit to a new branch or change, which starts before it.`,
    choices: [
      { value: present, text: place ? 'Replace it with this text' : 'Add it again with this text' },
    ],
  })}`
}

function pathField(
  form: PageForm,
  options: { value: string; hasFocus: boolean; help?: string },
): Html {
  return form.text({
    ...{ name: 'path', label: 'Path', pointer: pathPointer, isRequired: true, isMono: true },
    maxLength: pathMaxLength,
    ...options,
  })
}

function contentField(
  form: PageForm,
  { path, text, hasFocus = false }: { path: string; text?: string | undefined; hasFocus?: boolean },
): Html {
  return form.area({
    ...{ name: 'content', label: 'Content', pointer: contentPointer, hasFocus },
    ...(text !== undefined && { value: text }),
    rows: contentRows,
    isCode: !isMarkdown(path),
    maxLength: editedMaxBytes,
  })
}

/** The message of a commit, and where it goes to. */
function commitFields(shown: Shown, usual: string): Html {
  const { form, rev, isFirst } = shown
  return html`${form.text({ name: 'summary', label: 'Summary', pointer: 'message', placeholder: usual, maxLength: summaryMaxLength })}
${form.area({ name: 'description', label: 'Description', maxLength: descriptionMaxLength })}
${
  isFirst
    ? html`<input type="hidden" name="to" value="branch"><p class="help">The first commit of the repository, on <code>${rev}</code>.</p>`
    : destination(shown)
}`
}

/** The choice of the branch, a new branch or a change, as far as the reader has one. */
function destination({ form, rev, refusal, mayPush, sentTo }: Shown): Html {
  const isRefused = refusal !== undefined
  // It may have been protected since the form was opened.
  const hasBranch = !isRefused || sentTo === 'branch'
  const choices = [
    ...(hasBranch ? [{ value: 'branch', text: rev, isChecked: !isRefused }] : []),
    ...(mayPush ? [{ value: 'new', text: 'A new branch' }] : []),
    { value: 'change', text: `Propose as a change for ${rev}`, isChecked: isRefused },
  ]
  if (choices.length === 1)
    return html`<input type="hidden" name="to" value="change"><p class="help">It is proposed as a change for <code>${rev}</code>, which those who may push can land.</p>`
  return html`${form.checks({ name: 'to', label: 'Branch', type: 'radio', choices, ...(isRefused && { help: refusal }) })}
${mayPush && form.text({ name: 'newBranch', label: 'Name of the new branch', pointer: 'branch', isMono: true, maxLength: branchMaxLength })}`
}

/** A problem in the words of the form, where those of the API are about requests. */
function toFormProblem(problem: Problem, { fields }: PageContext, rev: string): Problem {
  const { code, members } = problem
  if (code === 'nothing_changed')
    return new Problem(code, 'Nothing has changed, so there is nothing to commit.')
  if (code !== 'ref_moved' || members?.head === undefined) return problem
  if (fields.get('to') === 'new')
    return invalid([{ pointer: '/branch', detail: 'There is a branch with this name already.' }])
  const detail = `${rev} has got another commit at this moment, so nothing was committed. Commit again.`
  return new Problem(code, detail)
}
