import { icon } from './icons.ts'
import type { SharedContext } from './page.ts'
import { askButton, formButton } from './page-forms.ts'
import type { OperationValues } from './read-operations.ts'
import { type Html, html } from './render/html.ts'

type Described = Pick<OperationValues['getRepository'], 'name' | 'import'>

/** What the page of a repository shows while it is imported, and when the import has failed; undefined otherwise. */
export async function importProgress(
  repository: Described,
  context: SharedContext,
): Promise<Html | undefined> {
  const { name, import: running } = repository
  if (running === null) return undefined
  const { to } = context
  const { source, phase, progress, fault } = running
  const mayCancel = await context.may('deleteRepository')
  const action = to.of(name, 'cancel-import')
  if (fault !== null) {
    const again = `${to.own('new')}?${new URLSearchParams({ source, name })}`
    return html`<section class="empty">${icon('warning', 'large')}
<h1>The import has failed</h1>
<p>${fault.detail}</p>
<p class="soft">From <code>${source}</code>. Nothing of it was kept.</p>
<div class="actions"><a class="button primary" href="${again}">Try again</a>${mayCancel && formButton(action, 'Dismiss', { className: '' })}</div></section>`
  }
  const text = phases[phase] ?? phase
  return html`<section class="importing">
<h1>Importing ${name}</h1>
<p class="soft">From <code>${source}</code></p>
<progress max="100" value="${progress}" data-follow="${text}" aria-label="Import" aria-describedby="import-phase"></progress>
<p id="import-phase" class="soft"><span data-phase>${text}</span>, <span data-percent>${progress}</span> %</p>
<div class="actions"><a class="button" href="${to.repository(name)}">${icon('again')}Refresh</a>${mayCancel && askButton(context, { action, verb: 'Cancel', object: 'the import', isInRow: false, consequence: 'Nothing of it is kept.', className: '' })}</div></section>`
}

/** Warns on the page of a repository that its import left objects of Git LFS behind. */
export function missingLfsNotice({
  missingLfsObjects: count,
}: Pick<OperationValues['getRepository'], 'missingLfsObjects'>): Html | false {
  const objects = count === 1 ? '1 Git LFS object was' : `${count} Git LFS objects were`
  return (
    count > 0 &&
    html`<div class="notice bad">${icon('warning')}<p>${objects} not imported, so that a clone lacks the files that name ${count === 1 ? 'it' : 'them'}. Push ${count === 1 ? 'it' : 'them'} from a clone of the source: <code>git lfs fetch --all</code>, then <code>git lfs push --all</code> to this repository.</p></div>`
  )
}

const phases: Record<string, string> = {
  counting: 'Counting objects',
  copying: 'Copying',
  receiving: 'Receiving objects',
  resolving: 'Resolving deltas',
  storing: 'Storing',
  lfs: 'Receiving LFS objects',
}
