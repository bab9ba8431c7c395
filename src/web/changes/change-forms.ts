import { titleFields } from '../history/propose-form.ts'
import { icon } from '../icons.ts'
import type { PageContext } from '../page.ts'
import { createForm, formButton, otherProblem, type PageForm } from '../page-forms.ts'
import { type Html, html } from '../render/html.ts'
import { changeLink, type ShownChange } from './change-parts.ts'

/** A change, and whether the caller has proposed it, or may push to its repository. */
export type Editable = { change: ShownChange; isEditor: boolean; others: PageForm[] }

type Content = Html | false | undefined

/** The forms of the page of a change, as far as the caller may use them. */
export async function changeForms(
  context: PageContext,
  { change, isEditor, others }: Editable,
): Promise<{ edit: Content; land: Content; problem: Content }> {
  const { may } = context
  const at = (path: string) => changeLink(context, { path: `/${path}` })
  const [editForm, landForm] = [createForm(context, at('edit')), createForm(context, at('land'))]
  const isEditable = isEditor && (await may('updateChange'))
  const isOpen = change.state === 'open'
  return {
    edit:
      isEditable &&
      html`<div class="change-actions">${isOpen && formButton(at('abandon'), 'Abandon', { className: '' })}${
        change.state === 'abandoned' && formButton(at('reopen'), 'Reopen', { className: '' })
      }
<details class="creation"${editForm.isSent && html` open`}><summary class="button">Edit</summary>
${editForm.render(html`${titleFields(editForm, change)}<button class="primary">Save</button>`, 'card pad stack')}</details></div>`,
    land:
      isOpen &&
      landing(landForm, change, {
        mayLand: await may('landChange'),
        mayHurry: await may('addBranchProtection'),
        withdraw:
          (isEditor || change.queued?.username === context.caller.username) &&
          (await may('withdrawChange')) &&
          formButton(at('withdraw'), 'Take it out of the queue', { className: '' }),
      }),
    problem: otherProblem(context, [
      ...others,
      ...(isEditable ? [editForm] : []),
      ...(isOpen ? [landForm] : []),
    ]),
  }
}

const allMethods = [
  { value: 'merge', text: 'Merge commit' },
  { value: 'squash', text: 'One commit (squash)' },
  { value: 'rebase', text: 'Commit by commit (rebase)' },
  { value: 'fast-forward', text: 'Move the branch (fast-forward)' },
] as const

type Landing = { mayLand: boolean; mayHurry: boolean; withdraw: Content }

/** What is missing for landing, its place in the queue, or the form that lands the change. */
function landing(
  form: PageForm,
  { missing, methods, target, version, hasQueue, queued, queueNote }: ShownChange,
  { mayLand, mayHurry, withdraw }: Landing,
): Html {
  return html`<section class="card" id="land"><header><h2>Land on ${target}</h2></header><div class="pad stack">${
    queueNote && html`<p>It was removed from the queue:</p><pre>${queueNote}</pre>`
  }${
    queued &&
    html`<p>${icon('waiting', 'soft')} Number ${queued.position} in the queue, ${queued.state === 'trying' ? 'which tries it now' : 'where it waits'}. Queued by <b>${queued.username}</b>.</p>${withdraw}`
  }${
    missing.length > 0
      ? html`<ul class="missing">${missing.map(({ detail }) => html`<li>${icon('waiting', 'soft')} ${detail}</li>`)}</ul>`
      : !queued &&
        mayLand &&
        form.render(html`<input type="hidden" name="version" value="${version}">
${form.select({ name: 'method', label: 'Method', options: allMethods.filter(({ value }) => methods.includes(value)) })}
<details class="fold"><summary>Message</summary>${form.area({
          name: 'message',
          label: 'Message of the merge or squash',
          help: 'Title and description, if it is empty.',
          rows: 5,
        })}</details>
${hasQueue && mayHurry && form.checks({ name: 'urgent', label: 'Urgent', choices: [{ value: 'on', text: 'Before the others', help: 'It is tried without them.' }] })}
<button class="primary">${hasQueue ? `Queue version ${version}` : `Land version ${version}`}</button>`)
  }</div></section>`
}
