import { proposalInput } from '../history/propose-form.ts'
import { action, type PageAction, type PageContext, page } from '../page.ts'
import { areaText, fieldText, numberOf } from '../page-forms.ts'
import { fileComment, filesLink } from './change-file-comments.ts'
import { showChangedFiles } from './change-files-page.ts'
import { showChanges } from './change-list-page.ts'
import { showChange } from './change-page.ts'
import { changeLink, type ShownChange } from './change-parts.ts'
import type { Comment } from './thread-view.ts'

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
  page(
    `${path}/files`,
    [
      ...(['getChange', 'getRepository', 'compareCommits', 'getFile'] as const),
      ...(['listAnnotations', 'listChangeComments', 'compareChangeVersions'] as const),
    ],
    { weight: 'heavy', audience: 'members', styles: 'review', show: showChangedFiles },
  ),
  ...commentActions({
    formPage: path,
    newComment: ({ fields }) => ({ text: areaText(fields, 'text') }),
    redirectTo: (context) =>
      changeLink(context, { query: { cursor: context.query.get('cursor') ?? undefined } }),
    done: (text) => ({ done: { text } }),
  }),
  ...commentActions({
    formPage: `${path}/files`,
    newComment: fileComment,
    // The thread says enough, in the middle of a long page.
    redirectTo: (context, value) =>
      // The server's own response, whose schema is that of the operation.
      `${filesLink(context)}#comment-${(value as Comment).threadId}`,
    done: () => ({}),
  }),
  action(`${path}/land`, 'landChange', {
    formPage: path,
    input: ({ fields }) => ({
      body: {
        method: fields.get('method') ?? '',
        version: numberOf(fields, 'version'),
        ...(fieldText(fields, 'message') && { message: areaText(fields, 'message') }),
        ...(fields.get('urgent') === 'on' && { urgent: true }),
      },
    }),
    redirectTo: ofChange,
    done: { text: 'The change has landed, or is in the queue.' },
  }),
  action(`${path}/withdraw`, 'withdrawChange', {
    formPage: path,
    input: () => ({}),
    redirectTo: ofChange,
    done: { text: 'The change is not in the queue.' },
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

type CommentForms = Pick<PageAction, 'formPage' | 'redirectTo'> & {
  newComment: (context: PageContext) => object
  done: (text: string) => Pick<PageAction, 'done'>
}

/** The forms of a page about comments. */
function commentActions({ formPage, newComment, redirectTo, done }: CommentForms): PageAction[] {
  const edit = (path: string, text: string, body: (context: PageContext) => object) =>
    action(`${formPage}/comments/:id/${path}`, 'updateChangeComment', {
      formPage,
      input: (context) => ({ body: body(context) }),
      redirectTo,
      ...done(text),
    })
  return [
    action(`${formPage}/comments`, 'commentOnChange', {
      formPage,
      input: (context) => ({ body: newComment(context) }),
      redirectTo,
      ...done('The comment is added.'),
    }),
    action(`${formPage}/comments/:id/reply`, 'commentOnChange', {
      formPage,
      input: ({ fields, params }) => ({
        body: { text: areaText(fields, 'text'), replyTo: params.id ?? '' },
      }),
      redirectTo,
      ...done('The reply is added.'),
    }),
    edit('edit', 'The comment is saved.', ({ fields }) => ({ text: areaText(fields, 'text') })),
    edit('resolve', 'The thread is resolved.', () => ({ resolved: true })),
    edit('reopen', 'The thread is open again.', () => ({ resolved: false })),
  ]
}

function ofChange(context: PageContext): string {
  return changeLink(context)
}
