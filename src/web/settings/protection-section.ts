import { icon } from '../icons.ts'
import { askButton } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Content, type Html, html } from '../render/html.ts'
import { type SectionParts, section } from './cache-section.ts'

type Rule = OperationValues['listBranchProtections']['rules'][number]

const ownerWords = {
  any: 'owners may do everything',
  'fast-forward': 'owners may only add commits',
  none: 'no one may change it',
} as const

/** That required workflows are not there, so that no push has a successful run of them. */
function missingNotice(requires: string[], workflows: ReadonlySet<string> | undefined) {
  const missing = workflows ? requires.filter((file) => !workflows.has(file)) : []
  if (missing.length === 0) return undefined
  return html`<p class="busy">${icon('warning')} The default branch has no ${missing.map((file, index) => html`${index > 0 && ', '}<code>${file}</code>`)}: only pushes that bring it can succeed.</p>`
}

/** Protected branches or tags. */
export function protectionSection(
  parts: SectionParts,
  {
    kind,
    rules,
    inherited,
    workflows,
    mayChange,
  }: {
    kind: 'branches' | 'tags'
    rules: Rule[]
    /** A line about those of the namespace. */
    inherited?: Content
    /** The workflow files of the default branch; undefined for those who may not read them. */
    workflows: ReadonlySet<string> | undefined
    mayChange: boolean
  },
): Html {
  const { address, context } = parts
  const form = parts.form(kind)
  const isBranches = kind === 'branches'
  return section(
    parts,
    {
      id: kind,
      title: isBranches ? 'Protected branches' : 'Protected tags',
      about: isBranches
        ? 'Only owners push to them, and only within these rules.'
        : 'Only owners create, move or delete them, and only within these rules.',
    },
    html`<div class="card">
${inherited}
${rules.length === 0 && html`<p class="pad soft">No ${kind} are protected.</p>`}
${
  rules.length > 0 &&
  html`<ul>${rules.map(
    ({
      pattern,
      owners,
      requires,
    }) => html`<li class="row">${icon(isBranches ? 'branch' : 'tag', 'soft')}
<div class="grow"><b class="mono">${pattern}</b><p class="soft">${ownerWords[owners]}${requires.length > 0 && html`, with a successful run of ${requires.map((file, index) => html`${index > 0 && ', '}<code>${file}</code>`)}`}</p>${missingNotice(requires, workflows)}</div>
${mayChange && askButton(context, { action: address(`${kind}/remove`), verb: 'Remove', object: `the protection of ${pattern}`, consequence: 'Everyone who may push can then change, force and delete it.', hidden: { pattern } })}</li>`,
  )}</ul>`
}
${
  mayChange &&
  html`<details class="add"${form.isSent && html` open`}><summary>${icon('plus')}Protect ${isBranches ? 'a branch' : 'a tag'}</summary><div class="pad">${form.render(html`${form.text({ name: 'pattern', label: 'Name or pattern', isRequired: true, isMono: true, placeholder: isBranches ? 'release/*' : 'v*', pointer: isBranches ? 'branch' : 'tag', help: 'An asterisk stands for any characters. An existing rule for the same name is replaced.' })}
${form.select({
  name: 'owners',
  label: 'Owners',
  options: [
    { value: 'any', text: 'May do everything' },
    { value: 'fast-forward', text: 'May create it and add commits' },
    { value: 'none', text: 'May do nothing' },
  ],
})}
${form.area({ name: 'requires', label: 'Required workflows', placeholder: 'ci.yml', help: 'Files, one per line. A pushed commit must have a successful run of each.' })}
<button class="primary">Protect</button>`)}</div></details>`
}</div>`,
  )
}
