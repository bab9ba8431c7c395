import { proposalInput } from '../history/propose-form.ts'
import { action, cachedPage, type PageContext, page } from '../page.ts'
import { areaText, fieldText, numberOf } from '../page-forms.ts'
import { showChangedFiles } from './change-files-page.ts'
import { showChanges } from './change-list-page.ts'
import { showChange } from './change-page.ts'
import { changeLink, type ShownChange } from './change-parts.ts'

const path = '/r/:name/changes/:number'

/** The pages of changes, and their forms. */
export const changePages = [
  page('/r/:name/changes', ['listChanges', 'getRepository'], {
    weight: 'git',
    audience: 'members',
    styles: 'change',
    show: showChanges,
  }),
  action('/r/:name/changes', 'openChange', {
    formPage: '/r/:name/changes',
    input: proposalInput,
    redirectTo: ({ to, params }, value) =>
      // The server's own response, whose schema is that of the operation.
      to.of(params.name ?? '', `changes/${(value as ShownChange).number}`),
  }),
  page(
    path,
    [
      ...(['getChange', 'getRepository', 'compareCommits', 'listBranches', 'listTags'] as const),
      ...(['listRuns', 'listStatuses', 'listChangeComments'] as const),
    ],
    { weight: 'git', audience: 'members', styles: 'change', show: showChange },
  ),
  cachedPage(`${path}/files`, ['getChange', 'compareCommits', 'getFile', 'listAnnotations'], {
    weight: 'heavy',
    audience: 'members',
    styles: 'diff',
    show: showChangedFiles,
  }),
  action(`${path}/land`, 'landChange', {
    formPage: path,
    input: ({ fields }) => ({
      body: {
        method: fields.get('method') ?? '',
        version: numberOf(fields, 'version'),
        ...(fieldText(fields, 'message') && { message: areaText(fields, 'message') }),
      },
    }),
    redirectTo: ofChange,
    done: { text: 'The change has landed.' },
  }),
  action(`${path}/edit`, 'updateChange', {
    formPage: path,
    input: ({ fields }) => ({
      body: {
        title: fieldText(fields, 'title') ?? '',
        description: areaText(fields, 'description'),
      },
    }),
    redirectTo: ofChange,
    done: { text: 'The title and the description are saved.' },
  }),
  action(`${path}/abandon`, 'updateChange', {
    formPage: path,
    input: () => ({ body: { state: 'abandoned' } }),
    redirectTo: ofChange,
    done: { text: 'The change is abandoned.' },
  }),
  action(`${path}/comments`, 'commentOnChange', {
    formPage: path,
    input: ({ fields }) => ({ body: { text: areaText(fields, 'text') } }),
    redirectTo: ofChange,
    done: { text: 'The comment is added.' },
  }),
  action(`${path}/comments/:id/reply`, 'commentOnChange', {
    formPage: path,
    input: ({ fields, params }) => ({
      body: { text: areaText(fields, 'text'), replyTo: params.id ?? '' },
    }),
    redirectTo: ofChange,
    done: { text: 'The reply is added.' },
  }),
  ...([true, false] as const).map((resolved) =>
    action(`${path}/comments/:id/${resolved ? 'resolve' : 'reopen'}`, 'updateChangeComment', {
      formPage: path,
      input: () => ({ body: { resolved } }),
      redirectTo: ofChange,
      done: { text: resolved ? 'The thread is resolved.' : 'The thread is open again.' },
    }),
  ),
  action(`${path}/verdict`, 'judgeChange', {
    formPage: path,
    input: ({ fields }) => ({
      body: { verdict: fields.get('verdict') ?? '', version: numberOf(fields, 'version') },
    }),
    redirectTo: ofChange,
    done: { text: 'Your verdict is saved.' },
  }),
  action(`${path}/reopen`, 'updateChange', {
    formPage: path,
    input: () => ({ body: { state: 'open' } }),
    redirectTo: ofChange,
    done: { text: 'The change is open again.' },
  }),
]

function ofChange(context: PageContext): string {
  return changeLink(context)
}
