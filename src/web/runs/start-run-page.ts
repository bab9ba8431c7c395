import { action, type PageContext, page, type View } from '../page.ts'
import { createForm, otherProblem } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'

type Input = OperationValues['validateWorkflows']['inputs'][number]

const folder = '.svc/workflows'
/** Before the names of inputs in the form, which has other fields, too. */
const prefix = 'input-'

export const startRunPages = [
  page('/r/:name/start-run', ['listRuns', 'getRepository', 'getTree', 'validateWorkflows'], {
    weight: 'git',
    audience: 'members',
    styles: 'runs',
    show: showForm,
  }),
  action('/r/:name/start-run', 'createRun', {
    formPage: '/r/:name/start-run',
    input: ({ fields }) => ({ body: toNewRun(fields) }),
    redirectTo: ({ to, params }, value) =>
      // The server's own response, whose schema is that of the operation.
      to.of(params.name ?? '', `runs/${(value as { number: number }).number}`),
  }),
]

/** The form of a run in two steps: what it runs, then the inputs which the files there declare. */
async function showForm(context: PageContext): Promise<View> {
  const { params, query, fields, to, read, tryRead, may } = context
  const name = params.name ?? ''
  await read('listRuns', { query: { limit: 1 } })
  const mayStart = await may('createRun')
  const repository = await read('getRepository')
  const value = (field: string) => fields.get(field) ?? query.get(field) ?? undefined
  const branch = value('branch') || repository.defaultBranch
  // As a run reads it: other names are of branches, even if there is a tag with that name.
  const rev = branch.startsWith('refs/') ? branch : `refs/heads/${branch}`
  const tree = await tryRead('getTree', { query: { rev, path: folder } })
  const files = (tree?.entries ?? []).flatMap((one) =>
    /\.ya?ml$/.test(one.name) ? [one.name] : [],
  )
  const file = value('file') ?? (files.length === 1 ? files[0] : '') ?? ''
  const form = createForm(context, to.of(name, 'start-run'))
  const title = `Start a run · ${name} · svc`
  return {
    title,
    repository: name,
    tab: 'runs',
    crumbs: [{ text: 'runs', href: to.of(name, 'runs') }, { text: 'start' }],
    live: '',
    body: html`<div class="page-head"><h1>Start a run</h1></div>
${otherProblem(context, files.length > 0 ? [form] : [])}
${
  mayStart
    ? html`<form method="get" class="inline filters">
<label for="branch">Branch</label><input id="branch" name="branch" value="${branch}" required spellcheck="false" maxlength="500">
<label for="file">Workflow</label><select id="file" name="file"><option value="">all</option>${files.map(
        (one) => html`<option${one === file && html` selected`}>${one}</option>`,
      )}</select>
<button>Show inputs</button></form>
${files.length === 0 ? noFiles(branch) : await startForm(context, { branch, file, form })}`
    : html`<p class="card pad soft">Your token may not start runs.</p>`
}`,
  }
}

function noFiles(branch: string): Html {
  const tag = branch.startsWith('refs/') ? 'refs/tags/v1' : `refs/tags/${branch}`
  return html`<p class="card pad soft">There is no file in <code>${folder}/</code> of <code>${branch}</code>. A tag is written as <code>${tag}</code>.</p>`
}

async function startForm(
  { tryRead }: PageContext,
  { branch, file, form }: { branch: string; file: string; form: ReturnType<typeof createForm> },
): Promise<Html> {
  const files = file === '' ? undefined : [file]
  const checked = await tryRead('validateWorkflows', { body: { branch, files } })
  const faults = checked?.faults ?? []
  const inputs = new Map((checked?.inputs ?? []).map((input) => [input.name, input]))
  const about = html`<b>${file === '' ? 'All workflows' : file}</b> of <code>${branch}</code>`
  return html`<section class="card pad"><h2>${about}</h2>
${faults.map(({ file: path, line, message }) => html`<p class="bad"><code>${path}:${line}</code> ${message}</p>`)}
${form.render(html`<input type="hidden" name="branch" value="${branch}"><input type="hidden" name="file" value="${file}">
${[...inputs.values()].map((input) => inputField(form, input))}
${inputs.size === 0 && html`<p class="soft">It has no inputs.</p>`}
<button class="primary">Start</button>`)}</section>`
}

/** The field of an input, with its default. */
function inputField(form: ReturnType<typeof createForm>, input: Input): Html {
  const { name, type, description, required, options } = input
  const usual = input.default === null ? undefined : String(input.default)
  const field = {
    name: prefix + name,
    label: name,
    pointer: `inputs/${name}`,
    ...(description !== '' && { help: description }),
    ...(usual !== undefined && { value: usual }),
  }
  if (type === 'boolean' || type === 'choice') {
    const values = type === 'boolean' ? ['false', 'true'] : options
    return form.select({ ...field, options: values.map((value) => ({ value, text: value })) })
  }
  const isRequired = required && usual === undefined
  return form.text({ ...field, isRequired })
}

function toNewRun(fields: URLSearchParams) {
  const file = fields.get('file') ?? ''
  const inputs = [...fields].flatMap(([name, value]) =>
    // An empty field stands for the default.
    name.startsWith(prefix) && value !== '' ? [[name.slice(prefix.length), value]] : [],
  )
  return {
    branch: fields.get('branch') ?? '',
    ...(file !== '' && { files: [file] }),
    ...(inputs.length > 0 && { inputs: Object.fromEntries(inputs) }),
  }
}
