import { counted } from '../display-text.ts'
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

function requirement(value: Rule['requires'][number]): Html {
  if (typeof value === 'string') return html`a successful run of <code>${value}</code>`
  if ('workflow' in value)
    return html`a successful run of <code>${value.workflow}</code> as it is at <code>${value.from}</code>`
  return html`the status <code>${value.status}</code>${value.by && html` by ${value.by.join(' or ')}`}`
}

/** Protected branches or tags. */
export function protectionSection(
  parts: SectionParts,
  {
    kind,
    rules,
    inherited,
    warnings = [],
    mayChange,
  }: {
    kind: 'branches' | 'tags'
    rules: Rule[]
    /** A line about those of the namespace. */
    inherited?: Content
    /** What the rules require although it is not there. */
    warnings?: string[] | undefined
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
      approvals,
      codeOwners,
      queue,
    }) => html`<li class="row">${icon(isBranches ? 'branch' : 'tag', 'soft')}
<div class="grow"><b class="mono">${pattern}</b><p class="soft">${ownerWords[owners]}${approvals > 0 && `, by changes with ${counted(approvals, 'approval')}`}${codeOwners && ', approved by code owners'}${queue && ', through the queue'}${requires.length > 0 && html`, with ${requires.map((value, index) => html`${index > 0 && ', '}${requirement(value)}`)}`}</p></div>
${mayChange && askButton(context, { action: address(`${kind}/remove`), verb: 'Remove', object: `the protection of ${pattern}`, consequence: 'Everyone who may push can then change, force and delete it.', hidden: { pattern } })}</li>`,
  )}</ul>`
}
${warnings.map((text) => html`<p class="pad busy">${icon('warning')} ${text}</p>`)}
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
${form.area({ name: 'requires', label: 'Requirements', placeholder: 'ci.yml', help: 'What a pushed commit must have, one per line: a workflow file that has succeeded, as ci.yml or ci.yml from refs/heads/main, or a status, as status: ci/build by ci-bot.' })}
${
  isBranches &&
  html`${form.text({ name: 'approvals', label: 'Approvals', placeholder: '0', help: 'How many users must approve a change before it lands. With 1 and more, nothing else is pushed to the branch, and all who may push may land.' })}
${form.checks({ name: 'codeOwners', label: 'Code owners', choices: [{ value: 'on', text: 'Owners of the changed paths must approve', help: 'By the file CODEOWNERS of the branch.' }] })}
${form.checks({ name: 'queue', label: 'Queue', choices: [{ value: 'on', text: 'Changes land through the queue', help: 'It runs what is required at exactly the commit that lands.' }] })}`
}
<button class="primary">Protect</button>`)}</div></details>`
}</div>`,
  )
}
