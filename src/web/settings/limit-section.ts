import { exactSize, size } from '#config/setting-values.ts'
import { invalid } from '#http/validation.ts'
import { fieldText, numberOf } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { type SectionParts, section } from './cache-section.ts'

/** What a namespace may take, which admins of the server decide. */
export function limitSection(
  parts: SectionParts,
  { maxRepositories, maxBytes }: OperationValues['getNamespace'],
): Html {
  const form = parts.form('limits')
  return section(
    parts,
    {
      id: 'limits',
      title: 'Limits',
      about: 'What its repositories may take. Above a limit nothing is deleted, and nothing added.',
    },
    html`<div class="card pad">${form.render(html`${form.text({ name: 'maxRepositories', label: 'Most repositories', type: 'number', min: 0, value: maxRepositories?.toString() ?? null, placeholder: 'no limit' })}
${form.text({ name: 'maxBytes', label: 'Most bytes', value: maxBytes === null ? null : exactSize(maxBytes), placeholder: 'no limit', help: 'Of packs and Git LFS objects, such as 100GiB.' })}
<button class="primary">Save</button>`)}</div>`,
  )
}

const bytes = size(0, 2 ** 50)

/** The limits in the fields of the form; null for an empty one. */
export function newLimitsOf(fields: URLSearchParams) {
  const text = fieldText(fields, 'maxBytes')
  const maxBytes = text === undefined ? null : bytes.parse(text)
  if (maxBytes === undefined)
    throw invalid([{ pointer: '/maxBytes', detail: `must be ${bytes.accepts}.` }])
  return { maxRepositories: numberOf(fields, 'maxRepositories') ?? null, maxBytes }
}
