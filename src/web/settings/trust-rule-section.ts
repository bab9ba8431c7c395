import { type Content, type Html, html } from '../render/html.ts'
import { type ShownRule, trustRuleRow } from '../trust-rule-parts.ts'
import { type SectionParts, section } from './cache-section.ts'

/** The trust rules of a repository or a namespace, which are changed on a page of their own. */
export function trustRuleSection(
  parts: SectionParts,
  {
    rules,
    inherited,
    place,
  }: {
    rules: ShownRule[]
    /** A line about those of the namespace. */
    inherited?: Content
    place: { repository: string } | { namespace: string }
  },
): Html {
  const { context } = parts
  return section(
    parts,
    {
      id: 'trust-rules',
      title: 'Trust rules',
      about: 'Which jobs of CI services exchange their tokens for tokens of an hour.',
    },
    html`<div class="card">
${inherited}
${rules.length === 0 && html`<p class="pad soft">There are no trust rules.</p>`}
${rules.length > 0 && html`<ul>${rules.map((rule) => trustRuleRow(context, rule))}</ul>`}
<p class="pad"><a class="button" href="${context.to.own(`trust-rules?${new URLSearchParams(place)}`)}">Add or delete</a></p></div>`,
  )
}
