import { breakable, grouped } from '../display-text.ts'
import { type Html, html } from '../render/html.ts'
import { type DiffContext, fileQuery, type ShownFile } from './diff-context.ts'

type Folder = {
  name: string
  folders: Map<string, Folder>
  files: { name: string; index: number }[]
}

const maxShown = 300

/** The changed files by folder, each with a link to its changes. */
export function diffTree(
  files: readonly ShownFile[],
  { here, isSplit }: Pick<DiffContext, 'here' | 'isSplit'>,
): Html {
  const root: Folder = { name: '', folders: new Map(), files: [] }
  for (const [index, { path }] of files.entries()) {
    const names = path.split('/')
    const name = names.pop() ?? ''
    let folder = root
    for (const step of names) {
      const next = folder.folders.get(step) ?? { name: step, folders: new Map(), files: [] }
      folder.folders.set(step, next)
      folder = next
    }
    folder.files.push({ name, index })
  }

  function contents(folder: Folder): Html {
    return html`<ul>${[...folder.folders.values()].map((inner) => {
      const joined = joinSingle(inner)
      return html`<li><span class="folder">${breakable(joined.name)}</span>${contents(joined)}</li>`
    })}${folder.files.map(({ name, index }) => entry(name, index))}</ul>`
  }

  function entry(name: string, index: number): Html {
    const file = files[index]
    if (file === undefined) return html``
    const { additions, deletions, status } = file
    const href = index < maxShown ? `#f${index + 1}` : here(fileQuery(file))
    return html`<li><a href="${href}"><span class="cut ${status}">${name}</span>
${additions !== null && deletions !== null && html`<span class="counts">${additions > 0 && html`<span class="good">+${grouped(additions)}</span>`} ${deletions > 0 && html`<span class="bad">−${grouped(deletions)}</span>`}</span>`}</a></li>`
  }

  return html`<details class="diff-tree"${!isSplit && html` open`}><summary>Files</summary><nav aria-label="Changed files" tabindex="0">${contents(root)}</nav></details>`
}

/** A folder with one folder and nothing else is one row with it. */
function joinSingle(folder: Folder): Folder {
  const [only, ...others] = folder.folders.values()
  if (folder.files.length > 0 || only === undefined || others.length > 0) return folder
  const inner = joinSingle(only)
  return { ...inner, name: `${folder.name}/${inner.name}` }
}
