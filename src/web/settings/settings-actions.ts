import { toNamespaceOperation } from '#base/repository-name.ts'
import { parseRequirement } from '#repositories/requirement-text.ts'
import { action, type PageContext } from '../page.ts'
import { fieldLines, fieldText, requireTyped } from '../page-forms.ts'
import type { SectionId } from './cache-section.ts'
import { newLimitsOf } from './limit-section.ts'

const of = '/r/:name/settings'

const back = ({ to, params }: PageContext) => to.of(params.name ?? '', 'settings')

/** What a section says of a change in it. */
const section = (at: SectionId, text: string) => ({ at, text })

/** Forms that repositories and namespaces have alike: their addresses, operations and the page that follows. */
type SettingsOf = {
  path: string
  toOperation: (operationId: string) => string
  back: (context: PageContext) => string
}

const ofRepository: SettingsOf = { path: of, toOperation: (id) => id, back }

const ofNamespace: SettingsOf = {
  path: '/-/namespaces/:namespace/settings',
  toOperation: toNamespaceOperation,
  back: ({ to, params }) => `${to.namespace(params.namespace ?? '')}/settings`,
}

function secretActions({ path, toOperation, back }: SettingsOf) {
  return [
    action(`${path}/secrets`, toOperation('putSecret'), {
      formPage: path,
      isSensitive: true,
      secretFields: { value: 'Value' },
      input: ({ fields }) => ({
        params: { secretName: fieldText(fields, 'secret') ?? '' },
        // Browsers send line breaks as CR LF, which private keys and the like do not have.
        body: { value: (fields.get('value') ?? '').replaceAll('\r\n', '\n') },
      }),
      redirectTo: back,
      done: section('secrets', 'The secret is saved.'),
    }),
    action(`${path}/secrets/remove`, toOperation('deleteSecret'), {
      formPage: path,
      isSensitive: true,
      input: ({ fields }) => ({ params: { secretName: fields.get('secret') ?? '' } }),
      redirectTo: back,
      done: section('secrets', 'The secret is deleted.'),
    }),
  ]
}

/** A form for one field of the repository. */
function change(path: string, text: string, body: (fields: URLSearchParams) => object) {
  return action(`${of}/${path}`, 'updateRepository', {
    formPage: of,
    input: ({ fields }) => ({ body: body(fields) }),
    redirectTo: ({ to, params }, value) =>
      to.of(String(Object(value).name ?? params.name), 'settings'),
    done: section('general', text),
  })
}

/** The forms of protections: those of branches and of tags differ in a word. */
function protect({ path, toOperation, back }: SettingsOf, kind: 'branches' | 'tags') {
  const [put, remove, parameter] =
    kind === 'branches'
      ? (['addBranchProtection', 'deleteBranchProtection', 'branch'] as const)
      : (['addTagProtection', 'deleteTagProtection', 'pattern'] as const)
  const params = ({ fields }: PageContext) => ({ [parameter]: fieldText(fields, 'pattern') ?? '' })
  return [
    action(`${path}/${kind}`, toOperation(put), {
      formPage: path,
      input: (context) => ({
        params: params(context),
        body: {
          owners: fieldText(context.fields, 'owners'),
          requires: (fieldLines(context.fields, 'requires') ?? []).map(parseRequirement),
          ...(kind === 'branches' && {
            approvals: Number(fieldText(context.fields, 'approvals') ?? 0),
            codeOwners: context.fields.get('codeOwners') === 'on',
            queue: context.fields.get('queue') === 'on',
          }),
        },
      }),
      redirectTo: back,
      done: section(kind, 'The protection is saved.'),
    }),
    action(`${path}/${kind}/remove`, toOperation(remove), {
      formPage: path,
      input: (context) => ({ params: params(context) }),
      redirectTo: back,
      done: section(kind, 'The protection is removed.'),
    }),
  ]
}

export const settingsActions = [
  change('name', 'The repository is renamed.', (fields) => ({
    name: fieldText(fields, 'name') ?? '',
  })),
  change('description', 'The description is saved.', (fields) => ({
    description: fieldText(fields, 'description') ?? '',
  })),
  change('default-branch', 'The default branch is saved.', (fields) => ({
    defaultBranch: fieldText(fields, 'defaultBranch') ?? '',
  })),
  change('leak-guard', 'The leak guard is saved.', (fields) => ({
    leakGuard: fields.get('leakGuard') === 'on',
  })),
  change('run-tokens', 'The tokens of workflow runs are saved.', (fields) => ({
    runTokens: fieldText(fields, 'runTokens') ?? '',
  })),
  change('visibility', 'The visibility is saved.', (fields) => ({
    visibility: fieldText(fields, 'visibility') ?? '',
  })),
  action(`${of}/owner`, 'updateRepository', {
    formPage: of,
    isSensitive: true,
    input: ({ fields }) => ({ body: { ownerUsername: fieldText(fields, 'ownerUsername') ?? '' } }),
    // The page may be closed to its former owner.
    redirectTo: ({ to }) => to.home(),
    done: { text: 'The repository is transferred.', subject: ({ params }) => params.name ?? '' },
  }),
  ...protect(ofRepository, 'branches'),
  ...protect(ofRepository, 'tags'),
  action(`${of}/collaborators`, 'addCollaborator', {
    formPage: of,
    input: ({ fields }) => ({
      body: { username: fieldText(fields, 'username') ?? '', role: fieldText(fields, 'role') },
    }),
    redirectTo: back,
    done: section('collaborators', 'The collaborator is saved.'),
  }),
  action(`${of}/collaborators/remove`, 'removeCollaborator', {
    formPage: of,
    input: ({ fields }) => ({ params: { username: fields.get('username') ?? '' } }),
    redirectTo: back,
    done: section('collaborators', 'The collaborator is removed.'),
  }),
  ...secretActions(ofRepository),
  action(`${of}/caches/remove`, 'deleteCache', {
    formPage: of,
    input: ({ fields }) => ({ params: { id: fields.get('cache') ?? '' } }),
    redirectTo: back,
    done: section('caches', 'The cache is deleted.'),
  }),
  action(`${of}/caches/clear`, 'deleteCaches', {
    formPage: of,
    input: () => ({}),
    redirectTo: back,
    done: section('caches', 'All caches are deleted.'),
  }),
  action(`${of}/delete`, 'deleteRepository', {
    formPage: of,
    isSensitive: true,
    input({ fields, params }) {
      requireTyped(fields, 'confirm', params.name ?? '')
      return {}
    },
    redirectTo: ({ to }) => to.own('deleted'),
    done: { text: 'The repository is deleted.', subject: ({ params }) => params.name ?? '' },
  }),
]

export const namespaceSettingsActions = [
  ...protect(ofNamespace, 'branches'),
  ...protect(ofNamespace, 'tags'),
  ...secretActions(ofNamespace),
  action(`${ofNamespace.path}/limits`, 'updateNamespace', {
    formPage: ofNamespace.path,
    input: ({ fields }) => ({ body: newLimitsOf(fields) }),
    redirectTo: ofNamespace.back,
    done: section('limits', 'The limits are saved.'),
  }),
]
