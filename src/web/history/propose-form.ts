import type { PageAction, SharedContext } from '../page.ts'
import { areaText, createForm, fieldText } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { splitMessage } from './commit-parts.ts'

const titleMaxLength = 250

/** Reads the fields of both forms that propose a branch. */
export const proposalInput: PageAction['input'] = ({ fields }) => {
  const title = fieldText(fields, 'title')
  return {
    body: {
      source: fieldText(fields, 'source') ?? '',
      target: fieldText(fields, 'target') ?? '',
      // Without them, they are those of the last commit.
      ...(title !== undefined && { title, description: areaText(fields, 'description') }),
    },
  }
}

/** The fields of a title and a description. */
export function titleFields(
  form: ReturnType<typeof createForm>,
  { title, description = '' }: { title?: string; description?: string },
): Html {
  return html`${form.text({
    name: 'title',
    label: 'Title',
    maxLength: titleMaxLength,
    ...(title === undefined
      ? { help: 'By default, title and description are the message of the last commit.' }
      : { value: title, isRequired: true }),
  })}
${form.area({ name: 'description', label: 'Description', help: 'Markdown', value: description, rows: 6 })}`
}

type Compared = Pick<OperationValues['compareCommits'], 'commits' | 'ahead'>

/**
 * The end of a comparison of two branches: the form that proposes one for the other, or the open change that does so. It
 * depends on the rights of the caller, so a page with it is not cached.
 */
export async function proposeSection(
  context: SharedContext,
  { target, source }: { target: string; source: string },
  { commits, ahead }: Compared,
): Promise<Html | false> {
  const { to, params, tryRead, may, isLoggedIn } = context
  const [newest] = commits
  if (!isLoggedIn || ahead === 0 || !newest) return false
  const name = params.name ?? ''
  const open = await tryRead('listChanges', { query: { state: 'open', target, source, limit: 1 } })
  const existing = open?.[0]
  if (existing)
    return html`<p class="compare-state">Proposed by ${existing.username} as <a href="${to.of(name, `changes/${existing.number}`)}">change ${existing.number}: ${existing.title}</a></p>`
  if (!(await may('openChange'))) return false
  const { subject, body } = splitMessage(newest.message)
  const form = createForm(
    { ...context, problem: undefined, fields: new URLSearchParams() },
    to.of(name, 'changes'),
  )
  return html`<details class="creation compare-commits"><summary class="button primary">Propose for ${target}</summary>
${form.render(
  html`<input type="hidden" name="source" value="${source}"><input type="hidden" name="target" value="${target}">
${titleFields(form, { title: subject.slice(0, titleMaxLength), description: body })}
<button class="primary">Propose</button>`,
  'card pad stack',
)}</details>`
}
