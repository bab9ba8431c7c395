import { apiPathOf } from '#base/repository-name.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { shortId } from '../display-text.ts'
import { icon } from '../icons.ts'
import { encodeRevision } from '../links.ts'
import { action, type PageContext, page, type View } from '../page.ts'
import { createForm, otherProblem } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { runMark } from '../run-states.ts'
import { commitLink, recentRuns, splitMessage } from './commit-parts.ts'
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

const pageSize = 50
/** Newest first. */
const order = 'version'

export const tagPages = [
  page(
    '/r/:name/tags',
    ['getRepository', 'listTags', 'listTagProtections', 'listRuns', 'listPushes'],
    {
      weight: 'git',
      audience: 'code',
      styles: 'history',
      show: tagsView,
    },
  ),
  action('/r/:name/tags', 'setRef', {
    formPage: '/r/:name/tags',
    input: ({ fields }) => ({
      query: { ref: typedRef(fields, 'refs/tags/') },
      body: { target: fields.get('target')?.trim() ?? '', expected: zeroId },
    }),
    redirectTo: ({ to, params }) => to.of(params.name ?? '', 'tags'),
    done: { text: 'The tag is created.' },
  }),
  action('/r/:name/tags/delete', 'deleteRef', {
    formPage: '/r/:name/tags',
    input: ({ fields }) => ({
      query: { ref: fields.get('ref') ?? '', expected: fields.get('expected') ?? '' },
    }),
    redirectTo: ({ to, params }) => to.of(params.name ?? '', 'tags'),
    done: refDeleted('tag'),
  }),
]

type Tag = OperationValues['listTags'][number]

async function tagsView(context: PageContext): Promise<View> {
  const { read, readPage, query, params, to, time } = context
  const name = params.name ?? ''
  const repository = await read('getRepository')
  const wanted = refListOf(query)
  const [{ value: tags, next }, rules, runs] = await Promise.all([
    readPage('listTags', { query: { limit: pageSize, order, ...wanted } }),
    rulesOf(context, 'listTagProtections'),
    recentRuns(context),
  ])
  const isWriter = await context.may('setRef')
  const deletionButton = await deletionButtons(context)
  const address = to.of(name, 'tags')
  const list = refListParts({ ...wanted, address, kind: 'tags', count: tags.length, next })
  const form = createForm(context, address)
  const row = (tag: Tag) => {
    const rev = tag.commit === null ? undefined : tag.revision
    const { subject, body } = splitMessage(tag.message ?? '')
    return html`<li class="row tag-row"><div class="grow">
<h2 class="ref-name">${icon('tag', 'soft')}${
      rev === undefined
        ? html`<span>${tag.name}</span>`
        : html`<a href="${to.src(name, rev)}">${tag.name}</a>`
    }${tag.isProtected && ruleBadge(tag.name, rules)}${tag.signature && signatureBadge(tag.signature)}</h2>
<div class="commit-meta"><p class="soft">${targetOf(tag, name, to)}${
      tag.tagger && html` · ${tag.tagger.name} tagged ${time.age(tag.tagger.at)}`
    }${tag.committedAt !== null && html` · committed ${time.age(tag.committedAt)}`}${tag.message !== null && html` · ${subject}`}</p>
${body !== '' && html`<details><summary>Message</summary><pre>${body}</pre></details>`}</div></div>
${tag.commit !== null && runMark(to, name, runs.get(tag.commit))}
<div class="ref-actions">${
      rev !== undefined &&
      html`<a class="button quiet small" href="${to.compare(name, rev, repository.defaultBranch)}" aria-label="Compare ${tag.name} with ${repository.defaultBranch}" rel="nofollow">Compare</a><a class="button quiet small" href="${to.of(name, `archive/${encodeRevision(rev)}.tar.gz`)}" aria-label="Download ${tag.name} as tar.gz" rel="nofollow">${icon('download')}tar.gz</a><a class="button quiet small" href="${to.of(name, `archive/${encodeRevision(rev)}.zip`)}" aria-label="Download ${tag.name} as zip" rel="nofollow">zip</a>`
    }${
      isWriter &&
      tag.nameBase64 === undefined &&
      !isKept(tag.name, rules) &&
      deletionButton({
        action: to.of(name, 'tags/delete'),
        ref: `refs/tags/${tag.name}`,
        expected: tag.id,
        label: tag.name,
      })
    }</div></li>`
  }
  return {
    title: `Tags · ${name}`,
    repository: name,
    tab: 'tags',
    json: `${apiPathOf(name)}/tags${toQueryString({ order, filter: wanted.filter })}`,
    body: html`<div class="page-head"><h1>Tags${list.count}</h1>
${isWriter && creation(form, repository.defaultBranch)}</div>
${await refNotice(context)}${otherProblem(context, [form])}
${list.filter}
${
  tags.length === 0
    ? (list.none ??
      html`<section class="empty">${icon('tag', 'large')}<h2>No tags yet</h2><p class="soft">A tag names a commit for good, such as a release.</p></section>`)
    : html`<ul class="card">${tags.map(row)}</ul>`
}
${list.pager}`,
  }
}

function creation(form: ReturnType<typeof createForm>, defaultBranch: string): Html {
  const fields = html`${form.text({ name: 'name', label: 'Name', isRequired: true, maxLength: 200, isMono: true })}
${form.text({ name: 'target', label: 'Of', value: defaultBranch, isRequired: true, maxLength: 200, isMono: true })}
<button class="primary">Create</button>`
  return html`<details class="creation"${form.isSent && html` open`}><summary class="button">${icon('plus')}New tag</summary>
${form.render(fields, 'card pad creation-form')}</details>`
}

const signatureNames = { openpgp: 'OpenPGP', x509: 'X.509', ssh: 'SSH' } as const

function signatureBadge(format: keyof typeof signatureNames): Html {
  return html`<span class="badge" title="The signature is not verified here">${icon('key')}${signatureNames[format]} signature, not verified</span>`
}

/** The object that a tag names, with a link to a commit. Trees and blobs have no page: they are not part of any commit. */
function targetOf({ type, commit, id }: Tag, name: string, to: PageContext['to']): Html {
  if (commit !== null) return html`${icon('commit')} ${commitLink(to, name, commit)}`
  const kinds: Record<string, string> = {
    tree: 'a folder outside of any commit',
    blob: 'a file outside of any commit',
    missing: 'a missing object',
  }
  return html`<code title="${id}">${shortId(id)}</code> ${kinds[type] ?? 'an object outside of any commit'}`
}
