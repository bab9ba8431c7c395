import { toSize } from '#base/format.ts'
import { icon } from '../icons.ts'
import { action, type PageContext, page, toRawResponse } from '../page.ts'
import { askButton } from '../page-forms.ts'
import { choiceOf } from '../page-query.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'

const types = { 'tar.gz': 'application/gzip', zip: 'application/zip' } as const
const path = '/r/:name/runs/:number/artifacts/:artifact'

export const artifactPages = [
  page(path, ['getArtifact'], {
    weight: 'heavy',
    audience: 'members',
    async show({ params, query, call }) {
      const { number: id = '', artifact = '' } = params
      const format = choiceOf(query, 'format', ['tar.gz', 'zip']) ?? 'tar.gz'
      return toRawResponse(
        types[format],
        await call('getArtifact', { params: { id, artifact }, query: { format } }),
      )
    },
  }),
  action(`${path}/delete`, 'deleteArtifact', {
    formPage: '/r/:name/runs/:number',
    input: ({ params }) => ({
      params: { id: params.number ?? '', artifact: params.artifact ?? '' },
    }),
    redirectTo: ({ to, params }) => to.of(params.name ?? '', `runs/${params.number}`),
    done: { text: 'The artifact is deleted.', at: 'run-artifacts' },
  }),
]

/** The artifacts of a run, to be downloaded and deleted. */
export function artifactSection(
  artifacts: OperationValues['listArtifacts'],
  context: PageContext,
  mayDelete: boolean,
): Html | false {
  const { to, params, time } = context
  const { name = '', number = '' } = params
  if (artifacts.length === 0) return false
  return html`<section class="card" aria-labelledby="artifacts-title"><header><h2 id="artifacts-title">Artifacts</h2></header>
<ul>${artifacts.map((artifact) => {
    const address = to.of(name, `runs/${number}/artifacts/${artifact.id}`)
    return html`<li class="row">${icon('file', 'soft')}<a class="grow" href="${address}" download>${artifact.name}</a>
<a class="soft" href="${address}?format=zip" aria-label="${artifact.name} as zip" download>zip</a>
<span class="soft">${toSize(artifact.size)}, expires ${time.age(artifact.expiresAt)}</span>
${mayDelete && askButton(context, { action: `${address}/delete`, verb: 'Delete', object: artifact.name, consequence: 'It cannot be downloaded any more.' })}</li>`
  })}</ul></section>`
}
