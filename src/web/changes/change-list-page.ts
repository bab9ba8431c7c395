import { apiPathOf } from '#base/repository-name.ts'
import { counted } from '../display-text.ts'
import { titleFields } from '../history/propose-form.ts'
import { icon } from '../icons.ts'
import type { PageContext, View } from '../page.ts'
import { createForm, otherProblem } from '../page-forms.ts'
import { choiceOf } from '../page-query.ts'
import { pager, wholeCount } from '../pager.ts'
import { type Html, html } from '../render/html.ts'
import { changeStates, type ListedChange, proposalOf, stateWords } from './change-parts.ts'

const pageSize = 30
const filters = [...changeStates, 'all'] as const

/** The page that lists the changes of a repository, with the form that proposes a branch. */
export async function showChanges(context: PageContext): Promise<View> {
  const { params, query, to, read, readPage, caller } = context
  const name = params.name ?? ''
  const state = choiceOf(query, 'state', filters) ?? 'open'
  const isMine = query.has('mine')
  const isWaiting = query.has('waiting')
  const { value: changes, next } = await readPage('listChanges', {
    query: {
      limit: pageSize,
      state: state === 'all' ? undefined : state,
      username: isMine ? caller.username : undefined,
      waiting: isWaiting || undefined,
      cursor: query.get('cursor') || undefined,
    },
  })
  const { defaultBranch } = await read('getRepository')
  const mayPropose = await context.may('openChange')
  const form = createForm(context, to.of(name, 'changes'))
  const address = (changed: { state?: string; of?: 'mine' | 'waiting' | '' }) => {
    const present = isWaiting ? 'waiting' : isMine ? 'mine' : ''
    const wanted = { state, of: present, ...changed }
    const search = [
      wanted.state !== 'open' && `state=${wanted.state}`,
      wanted.of !== '' && wanted.of,
    ].filter((part) => part !== false)
    return to.of(name, `changes${search.length === 0 ? '' : `?${search.join('&')}`}`)
  }
  const choice = (href: string, text: string, isChosen: boolean) =>
    html`<a class="button small${isChosen && ' primary'}" href="${href}"${isChosen && html` aria-current="true"`}>${text}</a>`
  return {
    title: `Changes · ${name}`,
    repository: name,
    tab: 'changes',
    crumbs: [{ text: 'changes' }],
    json: `${apiPathOf(name)}/changes${state === 'all' ? '' : `?state=${state}`}`,
    body: html`<div class="page-head"><h1 class="grow">Changes${wholeCount(context, changes, next)}</h1>
${mayPropose && proposal(form, defaultBranch)}</div>
${otherProblem(context, [form])}
<nav class="change-filters" aria-label="Changes that are listed"><div class="actions">${filters.map(
      (one) =>
        choice(
          address({ state: one }),
          one === 'all' ? 'All' : stateWords[one].word,
          one === state,
        ),
    )}</div>
<div class="actions">${choice(address({ of: '' }), 'Of everyone', !isMine && !isWaiting)}${choice(address({ of: 'mine' }), 'Mine', isMine && !isWaiting)}${choice(address({ state: 'open', of: 'waiting' }), 'Waiting for me', isWaiting)}</div></nav>
${
  changes.length === 0
    ? html`<section class="card empty">${icon('commit', 'large')}<h2>No ${state !== 'all' && `${state} `}changes${isWaiting ? ' that wait for you' : isMine && ' of yours'}</h2>
${
  (state === 'open' || state === 'all') &&
  html`<p class="soft">Propose the commit that you are at for ${defaultBranch}:</p>
<pre tabindex="0"><code>git push origin HEAD:refs/for/${defaultBranch}</code></pre>`
}</section>`
    : html`<ul class="card">${changes.map((change) => changeRow(context, name, change))}</ul>`
}
${pager(context, next, { first: 'Newest changes', next: 'Older changes' })}`,
  }
}

function proposal(form: ReturnType<typeof createForm>, defaultBranch: string): Html {
  const branches = html`<div class="columns">${form.text({ name: 'source', label: 'Branch', isRequired: true, maxLength: 250, isMono: true })}
${form.text({ name: 'target', label: 'For', value: defaultBranch, isRequired: true, maxLength: 250, isMono: true })}</div>`
  return html`<details class="creation"${form.isSent && html` open`}><summary class="button">${icon('plus')}Propose a branch</summary>
${form.render(html`${branches}${titleFields(form, {})}<button class="primary">Propose</button>`, 'card pad stack')}</details>`
}

function changeRow({ to, time }: PageContext, name: string, change: ListedChange): Html {
  const { shape, tone, word } = stateWords[change.state]
  const { number, title, version, updatedAt } = change
  return html`<li class="row change-row"><span class="mark ${tone || 'soft'}" title="${word}">${icon(shape)}<span class="hidden">${word}</span></span>
<div class="grow"><h2><a href="${to.of(name, `changes/${number}`)}">${title}</a></h2>
<p class="soft">#${number} ${proposalOf(change, (branch) => to.src(name, branch))}${version > 1 && ` · ${counted(version, 'version')}`} · ${time.age(updatedAt)}</p></div></li>`
}
