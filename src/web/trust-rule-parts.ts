import { icon } from './icons.ts'
import type { PageContext } from './page.ts'
import { askButton } from './page-forms.ts'
import type { OperationValues } from './read-operations.ts'
import { type Html, html } from './render/html.ts'

export type ShownRule = OperationValues['listTrustRules'][number]

/** A trust rule in a list; `deleteAction` is the address of the form that deletes it. */
export function trustRuleRow(
  context: PageContext,
  rule: ShownRule,
  { deleteAction }: { deleteAction?: string | undefined } = {},
): Html {
  const { time } = context
  const { id, name, username, issuer, audience, claims, refs, permissions, inForce } = rule
  const { createdAt, lastUsedAt, lastRefusedAt, lastRefusal } = rule
  const used = lastUsedAt === null ? 'never used' : html`used ${time.age(lastUsedAt)}`
  const patterns = Object.entries(claims).map(([claim, pattern]) => `${claim}=${pattern}`)
  return html`<li class="row">${icon('key', 'soft')}
<div class="grow"><b>${name}</b>${!inForce && html` <span class="badge busy">${icon('warning')}not in force</span>`}
<p class="soft">Tokens of <code>${issuer}</code> for <code>${audience}</code> with ${codes(patterns)}</p>
<p class="soft">${placesOf(context, rule)}</p>
${refs !== null && html`<p class="soft">Pushes only ${codes(refs)}</p>`}
<p class="soft">created ${time.age(createdAt)} by ${username}, ${used}</p>
${lastRefusedAt !== null && html`<p class="soft">Refused a token ${time.age(lastRefusedAt)}: ${lastRefusal}</p>`}
<p class="badges">${permissions.map((one) => html`<span class="badge">${one}</span>`)}</p></div>
${deleteAction !== undefined && askButton(context, { action: deleteAction, verb: 'Delete', object: name, consequence: 'The tokens that were exchanged by it end at once.', hidden: { rule: id }, isSensitive: true })}</li>`
}

/** Where a rule holds. */
function placesOf({ to }: PageContext, { namespace, repositories }: ShownRule): Html {
  const ofNamespace =
    namespace !== null && html`the namespace <a href="${to.namespace(namespace)}">${namespace}</a>`
  if (repositories === null)
    return html`In all repositories of ${ofNamespace || 'a namespace that you do not manage'}`
  const links = repositories.map(
    (name, index) => html`${index > 0 && ', '}<a href="${to.repository(name)}">${name}</a>`,
  )
  return html`In ${links.length > 0 ? links : 'no repository any more'}${ofNamespace && html`, of ${ofNamespace}`}`
}

function codes(texts: readonly string[]): Html[] {
  return texts.map((text, index) => html`${index > 0 && ', '}<code>${text}</code>`)
}
