import { apiPathOf } from '#base/repository-name.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchesByRecency } from '../code/ref-picker.ts'
import { grouped, orNoMessage, shownName } from '../display-text.ts'
import { icon } from '../icons.ts'
import { action, type PageContext, page, type View } from '../page.ts'
import { createForm, otherProblem } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { runMark } from '../run-states.ts'
import { commitLink, recentRuns } from './commit-parts.ts'
import {
  deletionButtons,
  isKept,
  refDeleted,
  refListOf,
  refListParts,
  refNotice,
  ruleBadge,
  rulesOf,
  toQueryString,
  typedRef,
} from './ref-parts.ts'
import { combinedState, combinedStatuses } from './status-view.ts'

const pageSize = 50

export const branchPages = [
  page(
    '/r/:name/branches',
    [
      ...(['getRepository', 'listBranches', 'listBranchProtections'] as const),
      ...(['listRuns', 'listCombinedStatuses', 'listPushes'] as const),
    ],
    {
      weight: 'git',
      audience: 'code',
      styles: 'history',
      show: branchesView,
    },
  ),
  action('/r/:name/branches', 'setRef', {
    formPage: '/r/:name/branches',
    input: ({ fields }) => ({
      query: { ref: typedRef(fields, 'refs/heads/') },
      body: { target: fields.get('target')?.trim() ?? '', expected: zeroId },
    }),
    redirectTo: ({ to, params, fields }) =>
      to.src(params.name ?? '', fields.get('name')?.trim() ?? ''),
  }),
  action('/r/:name/branches/delete', 'deleteRef', {
    formPage: '/r/:name/branches',
    input: ({ fields }) => ({
      query: { ref: fields.get('ref') ?? '', expected: fields.get('expected') ?? '' },
    }),
    redirectTo: ({ to, params }) => to.of(params.name ?? '', 'branches'),
    done: refDeleted('branch'),
  }),
]

type Branch = OperationValues['listBranches'][number]

async function branchesView(context: PageContext): Promise<View> {
  const { read, query, params, to } = context
  const name = params.name ?? ''
  const repository = await read('getRepository')
  const wanted = refListOf(query)
  const [{ value: branches, next }, rules, runs] = await Promise.all([
    branchPage(context, wanted),
    rulesOf(context, 'listBranchProtections'),
    recentRuns(context),
  ])
  const tips = branches.map(({ id }) => id)
  const statuses = await combinedStatuses(context, tips)
  const isWriter = await context.may('setRef')
  const deletionButton = await deletionButtons(context)
  const address = to.of(name, 'branches')
  const list = refListParts({ ...wanted, address, kind: 'branches', count: branches.length, next })
  const form = createForm(context, address)
  const row = (branch: Branch) => html`<tr>
<td><div class="ref-name">${icon('branch', 'soft')}<a href="${to.src(name, branch.revision)}">${branch.name}</a>${
    branch.isDefault && html`<span class="badge accent">default</span>`
  }${branch.isProtected && ruleBadge(branch.name, rules)}</div></td>
<td class="ref-commit">${
    branch.commit
      ? html`<div class="cut"><a href="${to.commit(name, branch.id)}">${orNoMessage(branch.commit.summary)}</a></div><span class="soft">${shownName(branch.commit.author)} · ${context.time.age(branch.commit.at)}</span>`
      : html`<span class="soft">unreadable</span> ${commitLink(to, name, branch.id)}`
  }</td>
<td>${!branch.isDefault && aheadBehind(branch, repository.defaultBranch)}</td>
<td><div class="marks">${runMark(to, name, runs.get(branch.id))}${combinedState(to, name, statuses.get(branch.id), true)}</div></td>
<td class="end"><div class="ref-actions">${
    !branch.isDefault &&
    html`<a class="button quiet small" href="${to.compare(name, repository.defaultBranch, branch.revision)}" aria-label="Compare ${branch.name}">Compare</a>`
  }${
    isWriter &&
    !branch.isDefault &&
    branch.nameBase64 === undefined &&
    !isKept(branch.name, rules) &&
    deletionButton({
      action: to.of(name, 'branches/delete'),
      ref: `refs/heads/${branch.name}`,
      expected: branch.id,
      label: branch.name,
    })
  }</div></td>
</tr>`
  return {
    title: `Branches · ${name}`,
    repository: name,
    tab: 'branches',
    json: `${apiPathOf(name)}/branches${toQueryString({ filter: wanted.filter })}`,
    body: html`<div class="page-head"><h1 class="grow">Branches${list.count}</h1>
<div class="actions"><a class="button" href="${to.of(name, 'compare')}">Compare</a></div>
${isWriter && creation(form, repository.defaultBranch)}</div>
${await refNotice(context)}${otherProblem(context, [form])}
${list.filter}
${
  branches.length === 0
    ? (list.none ??
      html`<section class="empty">${icon('branch', 'large')}<h2>No branches yet</h2><p class="soft">The first push makes one.</p></section>`)
    : html`<div class="card"><table class="refs"><caption class="hidden">Branches</caption>
<thead><tr><th>Branch</th><th>Last commit</th><th>Behind and ahead of ${repository.defaultBranch}</th><th>Checks</th><th><span class="hidden">Actions</span></th></tr></thead>
<tbody>${branches.map(row)}</tbody></table></div>`
}
${list.pager}`,
  }
}

/** A page of branches by recency. Of very many, they are listed by name. */
async function branchPage(
  context: PageContext,
  wanted: ReturnType<typeof refListOf>,
): Promise<{ value: Branch[]; next: string | undefined }> {
  const { filter, cursor } = wanted
  const at = cursor === undefined ? 0 : Number(/^@(\d{1,4})$/.exec(cursor)?.[1] ?? Number.NaN)
  const all = Number.isNaN(at) ? undefined : await branchesByRecency(context, filter)
  if (all === undefined || all.next !== undefined)
    return context.readPage('listBranches', {
      query: { limit: pageSize, filter, ...(Number.isNaN(at) && { cursor }) },
    })
  const shown = all.branches.slice(at, at + pageSize)
  const next = all.branches.length > at + pageSize ? `@${at + pageSize}` : undefined
  const pointsAt = [...new Set(shown.map(({ id }) => id))].join(',')
  const counted =
    shown.length === 0
      ? []
      : await context.read('listBranches', {
          query: { limit: all.branches.length, filter, pointsAt },
        })
  const byName = new Map(counted.map((branch) => [branch.name, branch]))
  return { value: shown.map((branch) => byName.get(branch.name) ?? branch), next }
}

function creation(form: ReturnType<typeof createForm>, defaultBranch: string): Html {
  const fields = html`${form.text({ name: 'name', label: 'Name', isRequired: true, maxLength: 200, isMono: true })}
${form.text({ name: 'target', label: 'From', value: defaultBranch, isRequired: true, maxLength: 200, isMono: true })}
<button class="primary">Create</button>`
  return html`<details class="creation"${form.isSent && html` open`}><summary class="button">${icon('plus')}New branch</summary>
${form.render(fields, 'card pad creation-form')}</details>`
}

/** How far a branch is from the default one: a bar to each side, with the numbers. */
function aheadBehind({ ahead, behind }: Branch, base: string): Html {
  if (ahead === null || behind === null)
    return html`<span class="soft" title="Still being counted, or too far apart">…</span>`
  return html`<span class="two-sides" title="${grouped(behind)} behind and ${grouped(ahead)} ahead of ${base}"><span>${grouped(behind)}<span class="hidden"> behind</span></span><svg viewBox="-50 0 100 8" width="100" height="8" aria-hidden="true"><rect class="bar-behind" x="${-lengthOf(behind)}" width="${lengthOf(behind)}" height="8" rx="2"/><rect class="bar-ahead" width="${lengthOf(ahead)}" height="8" rx="2"/><path d="M0 -2v12"/></svg><span>${grouped(ahead)}<span class="hidden"> ahead</span></span></span>`
}

/** The length of a bar, at most 50: logarithmic, since branches differ by few commits or by thousands. */
function lengthOf(count: number): number {
  return count === 0 ? 0 : Math.min(50, Math.round(4 + Math.log2(count) * 4.5))
}
