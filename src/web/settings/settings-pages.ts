import { hasAllUserRights } from '#access/may.ts'
import { includesRole } from '#access/roles.ts'
import { apiPathOf, namespaceIn } from '#base/repository-name.ts'
import { type PageContext, page, type View } from '../page.ts'
import { createForm, otherProblem, type PageForm } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { visibilityChoices } from '../visibility-parts.ts'
import { peopleSection, secretSection } from './access-sections.ts'
import { cacheSection, type SectionParts, section } from './cache-section.ts'
import { namespaceSettingsPages } from './namespace-settings-pages.ts'
import { protectionSection } from './protection-section.ts'
import { settingsActions } from './settings-actions.ts'
import { trustRuleSection } from './trust-rule-section.ts'

type Described = OperationValues['getRepository']

export const settingsPages = [
  page(
    '/r/:name/settings',
    [
      'getRepository',
      'listBranchProtections',
      'listTagProtections',
      'listCollaborators',
      'listSecrets',
      'listNamespaceSecrets',
      'listTrustRules',
      'listCaches',
      'getRunFileUsage',
    ],
    {
      weight: 'light',
      audience: 'members',
      styles: 'settings',
      async show(context) {
        const repository = await context.read('getRepository')
        const namespace = namespaceIn(repository.name)
        const [branches, tags, people, secrets, shared, rules, caches, usage, may] =
          await Promise.all([
            context.read('listBranchProtections', { query: { warnings: true } }),
            context.read('listTagProtections', { query: { warnings: true } }),
            context.tryRead('listCollaborators'),
            context.tryRead('listSecrets'),
            namespace && context.tryRead('listNamespaceSecrets', { params: { namespace } }),
            trustRulesOf(context, repository),
            context.tryRead('listCaches'),
            context.tryRead('getRunFileUsage'),
            rightsOf(context),
          ])
        const lists = { branches, tags, people, secrets, shared, rules, caches, usage }
        return settingsView(context, repository, lists, may)
      },
    },
  ),
  ...settingsActions,
  ...namespaceSettingsPages,
]

/** The trust rules of a repository, with the names of those of its namespace that cover it, as far as the caller may see. */
async function trustRulesOf({ tryRead }: PageContext, { name }: Described) {
  const namespace = namespaceIn(name)
  const [own, ofNamespace] = await Promise.all([
    tryRead('listTrustRules', { query: { repository: name } }),
    namespace === undefined ? undefined : tryRead('listTrustRules', { query: { namespace } }),
  ])
  const covering = ofNamespace?.filter(({ repositories }) => repositories?.includes(name) ?? true)
  return own && { own, inherited: covering?.map((rule) => rule.name) ?? [] }
}

/** The operations that decide about sections; those that remove something need the same rights as those that add it. */
const changes = [
  'updateRepository',
  'addBranchProtection',
  'addTagProtection',
  'addCollaborator',
  'putSecret',
  'deleteCache',
  'deleteRepository',
] as const

async function rightsOf({ may }: PageContext): Promise<Rights> {
  const allowed = await Promise.all(changes.map((operation) => may(operation)))
  // One for each of them.
  return Object.fromEntries(
    changes.map((operation, index) => [operation, allowed[index]]),
  ) as Rights
}

type Rights = Record<(typeof changes)[number], boolean>

function settingsView(
  context: PageContext,
  repository: Described,
  lists: {
    branches: OperationValues['listBranchProtections']
    tags: OperationValues['listTagProtections']
    people: OperationValues['listCollaborators'] | undefined
    secrets: OperationValues['listSecrets'] | undefined
    shared: OperationValues['listNamespaceSecrets'] | '' | undefined
    rules: Awaited<ReturnType<typeof trustRulesOf>>
    caches: OperationValues['listCaches'] | undefined
    usage: OperationValues['getRunFileUsage'] | undefined
  },
  may: Rights,
): View {
  const { to, caller } = context
  const { name } = repository
  const forms: PageForm[] = []
  const parts: SectionParts = {
    context,
    address: (path) => to.of(name, `settings/${path}`),
    form(path) {
      const form = createForm(context, to.of(name, `settings/${path}`))
      forms.push(form)
      return form
    },
  }
  const body = html`${may.updateRepository && generalSection(parts, repository)}
${protectionSection(parts, { kind: 'branches', rules: lists.branches.rules, inherited: inheritedRules(parts, name, lists.branches), warnings: lists.branches.warnings, mayChange: may.addBranchProtection })}
${protectionSection(parts, { kind: 'tags', rules: lists.tags.rules, inherited: inheritedRules(parts, name, lists.tags), warnings: lists.tags.warnings, mayChange: may.addTagProtection })}
${lists.people && peopleSection(parts, { owner: repository.ownerUsername, people: lists.people, mayChange: may.addCollaborator })}
${
  lists.secrets &&
  secretSection(parts, {
    secrets: lists.secrets,
    inherited:
      lists.shared &&
      inheritedLine(
        parts,
        name,
        lists.shared.map((one) => one.name),
      ),
    mayChange: may.putSecret,
  })
}
${
  lists.rules &&
  trustRuleSection(parts, {
    rules: lists.rules.own,
    inherited: inheritedLine(parts, name, lists.rules.inherited),
    place: { repository: name },
  })
}
${lists.caches && lists.usage && cacheSection(parts, { caches: lists.caches, usage: lists.usage, mayDelete: may.deleteCache })}
${may.updateRepository && repository.role === 'admin' && hasAllUserRights(caller) && ownerSection(parts, repository)}
${may.deleteRepository && deleteSection(parts, name)}`
  return {
    title: `Settings · ${name} · svc`,
    repository: name,
    tab: 'settings',
    crumbs: [{ text: 'settings' }],
    json: apiPathOf(name),
    body: html`<div class="page-head"><h1>Settings</h1>
<p class="soft">${roleWords(repository, caller.username)}</p></div>
${otherProblem(context, forms)}
${body}`,
  }
}

function inheritedRules(
  parts: SectionParts,
  name: string,
  { inherited = [] }: OperationValues['listBranchProtections' | 'listTagProtections'],
) {
  return inheritedLine(
    parts,
    name,
    inherited.map(({ pattern }) => pattern),
  )
}

/** That a repository has more of its namespace, by its names. */
function inheritedLine({ context: { to } }: SectionParts, name: string, shared: string[]) {
  const namespace = namespaceIn(name) ?? ''
  if (shared.length === 0) return undefined
  return html`<p class="pad soft">Of the namespace <a href="${to.namespace(namespace)}/settings">${namespace}</a>, too: ${shared.map((one, index) => html`${index > 0 && ', '}<b class="mono">${one}</b>`)}</p>`
}

function roleWords({ ownerUsername, role = 'read' }: Described, username: string): Html {
  if (ownerUsername === username) return html`You own this repository.`
  return html`<b>${ownerUsername}</b> owns this repository; your role is <b>${role}</b>.`
}

/** Of the fields that the operation takes, some need a role or a token for all repositories. */
function generalSection(parts: SectionParts, repository: Described): Html {
  const { caller } = parts.context
  const { role = 'read' } = repository
  const rename = parts.form('name')
  const describe = parts.form('description')
  const branch = parts.form('default-branch')
  const guard = parts.form('leak-guard')
  const runTokens = parts.form('run-tokens')
  const visibility = parts.form('visibility')
  const save = html`<button>Save</button>`
  return section(
    parts,
    {
      id: 'general',
      title: 'General',
      about: 'What the repository is called, what it is about, and what a clone checks out.',
    },
    html`<div class="card pad settings-forms">
${caller.repositories === undefined && rename.render(html`${rename.text({ name: 'name', label: 'Name', value: repository.name, isRequired: true, maxLength: 100, help: 'For 90 days the old address leads here, and only the owner and admins can take the old name.' })}<button>Rename</button>`, 'one-field')}
${describe.render(html`${describe.text({ name: 'description', label: 'Description', value: repository.description, maxLength: 350 })}${save}`, 'one-field')}
${role === 'admin' && branch.render(html`${branch.text({ name: 'defaultBranch', label: 'Default branch', value: repository.defaultBranch, isRequired: true, maxLength: 300 })}${save}`, 'one-field')}
${
  includesRole(role, 'maintain') &&
  guard.render(
    html`${guard.select({
      name: 'leakGuard',
      label: 'Leak guard',
      value: repository.leakGuard ? 'on' : 'off',
      options: [
        { value: 'on', text: 'On: pushes with credentials are refused' },
        { value: 'off', text: 'Off' },
      ],
    })}${save}`,
    'one-field',
  )
}
${
  role === 'admin' &&
  visibility.render(
    html`${visibility.select({
      name: 'visibility',
      label: 'Visibility',
      value: repository.visibility,
      options: visibilityChoices,
    })}${save}`,
    'one-field',
  )
}
${
  role === 'admin' &&
  runTokens.render(
    html`${runTokens.select({
      name: 'runTokens',
      label: 'Tokens of workflow runs',
      value: repository.runTokens ?? 'read',
      options: [
        { value: 'read', text: 'Read at most, even if a workflow asks for more' },
        { value: 'write', text: 'Read and write, if a workflow asks for it' },
      ],
    })}${save}`,
    'one-field',
  )
}
</div>`,
  )
}

/** Hands the repository to another user. */
function ownerSection(parts: SectionParts, { ownerUsername }: Described): Html {
  const form = parts.form('owner')
  return section(
    parts,
    {
      id: 'owner',
      title: 'Transfer',
      about: 'The new owner gets all rights; the former one keeps those of a collaborator, if any.',
    },
    html`<div class="card pad danger-zone">${form.render(html`${form.text({ name: 'ownerUsername', label: 'New owner', placeholder: ownerUsername, isRequired: true, maxLength: 64 })}
${form.token()}<button class="danger">Transfer repository</button>`)}</div>`,
  )
}

function deleteSection(parts: SectionParts, name: string): Html {
  const form = parts.form('delete')
  return section(
    parts,
    {
      id: 'delete',
      title: 'Delete',
      about: 'The repository and all that belongs to it. For a while it can be restored.',
    },
    html`<div class="card pad danger-zone">${form.render(html`${form.text({ name: 'confirm', label: `Type “${name}” to confirm`, isRequired: true })}
${form.token()}<button class="danger">Delete repository</button>`)}</div>`,
  )
}
