import { isAdmin } from '#access/may.ts'
import type { PageContext, View } from '../page.ts'
import { page } from '../page.ts'
import { createForm, otherProblem, type PageForm } from '../page-forms.ts'
import { html } from '../render/html.ts'
import { secretSection } from './access-sections.ts'
import type { SectionParts } from './cache-section.ts'
import { limitSection } from './limit-section.ts'
import { protectionSection } from './protection-section.ts'
import { namespaceSettingsActions } from './settings-actions.ts'
import { trustRuleSection } from './trust-rule-section.ts'

export const namespaceSettingsPages = [
  page(
    '/-/namespaces/:namespace/settings',
    [
      'getNamespace',
      'listNamespaceBranchProtections',
      'listNamespaceTagProtections',
      'listNamespaceSecrets',
      'listTrustRules',
    ],
    { weight: 'light', audience: 'members', styles: 'settings', show: settingsView },
  ),
  ...namespaceSettingsActions,
]

/** What all repositories of a namespace have. */
async function settingsView(context: PageContext): Promise<View> {
  const { to, caller, may, read, tryRead, params } = context
  const namespace = await read('getNamespace')
  const { name } = namespace
  const [branches, tags, secrets, rules, mayProtect, mayPutSecret] = await Promise.all([
    tryRead('listNamespaceBranchProtections'),
    tryRead('listNamespaceTagProtections'),
    tryRead('listNamespaceSecrets'),
    tryRead('listTrustRules', { query: { namespace: name } }),
    may('addNamespaceBranchProtection'),
    may('putNamespaceSecret'),
  ])
  const address = (path: string) => `${to.namespace(params.namespace ?? '')}/settings/${path}`
  const forms: PageForm[] = []
  const parts: SectionParts = {
    context,
    address,
    form(path) {
      const form = createForm(context, address(path))
      forms.push(form)
      return form
    },
  }
  const protection = { mayChange: mayProtect }
  const body = html`${branches && protectionSection(parts, { kind: 'branches', rules: branches.rules, ...protection })}
${tags && protectionSection(parts, { kind: 'tags', rules: tags.rules, ...protection })}
${secrets && secretSection(parts, { secrets, mayChange: mayPutSecret })}
${rules && trustRuleSection(parts, { rules, place: { namespace: name } })}
${isAdmin(caller) && limitSection(parts, namespace)}`
  return {
    title: `Settings · ${name} · svc`,
    crumbs: [{ text: name, href: to.namespace(name) }, { text: 'settings' }],
    json: `/namespaces/${encodeURIComponent(name)}`,
    body: html`<div class="page-head"><h1>Settings</h1>
<p class="soft">What all repositories of <b>${name}</b> have, those of today and later ones.</p></div>
${otherProblem(context, forms)}
${body}`,
  }
}
