import { apiPathOf } from '#base/repository-name.ts'
import { counted, grouped } from '../display-text.ts'
import { icon } from '../icons.ts'
import type { SharedContext, View } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { html } from '../render/html.ts'
import { toShort, toTarget } from './code-target.ts'

type FoundEntry = OperationValues['getTree']['entries'][number]

const maxPages = 20
const pageSize = 1000
const shownPaths = 2000

/** All paths of a revision, filtered by the words of `?q=`. */
export async function findView({ params, query, readPage, to }: SharedContext): Promise<View> {
  const { rev } = toTarget(params.target)
  const name = params.name ?? ''
  const files: FoundEntry[] = []
  let cursor: string | undefined
  for (let pages = 0; pages < maxPages; pages++) {
    const wanted = { rev, recursive: true, limit: pageSize, cursor }
    const { value, next } = await readPage('getTree', { query: wanted })
    files.push(...value.entries.filter(({ type }) => type !== 'folder'))
    cursor = next
    if (cursor === undefined) break
  }
  const q = query.get('q')?.slice(0, 200) ?? ''
  const matching = filterPaths(files, q)
  const shown = matching.slice(0, shownPaths)
  const isPartial = shown.length < matching.length
  const entries = grouped(maxPages * pageSize)
  return {
    title: `Find a file at ${toShort(rev)} · ${name} · svc`,
    repository: name,
    tab: 'code',
    crumbs: [{ text: 'Find a file' }],
    isNoIndex: true,
    json: `${apiPathOf(name)}/tree?${new URLSearchParams({ rev, recursive: 'true' })}`,
    body: html`<h1 class="hidden">Find a file at ${toShort(rev)}</h1>
<form class="find" role="search" aria-label="Files"><a href="${to.src(name, rev)}"><code>${toShort(rev)}</code></a><span class="soft">/</span>
<input type="search" name="q" value="${q}" aria-label="Part of a path" placeholder="Part of a path" maxlength="200" autocomplete="off" spellcheck="false" autofocus${!isPartial && q === '' && html` data-filter="#paths li"`}><button>Find</button></form>
<p class="help">${counted(matching.length, 'file')}${isPartial && `, of which the first ${grouped(shownPaths)} are listed`}${cursor !== undefined && `; only the first ${entries} entries were searched`}</p>
<ul class="card paths" id="paths">
${shown.map((entry) => html`<li>${icon('file', 'soft')}<a href="${to.src(name, rev, entry)}">${entry.path}</a></li>`)}
</ul>`,
  }
}

/** Further ones find hardly fewer files. */
const maxWords = 10

/** The entries whose paths have all words of a query; those with all of them in the name of the file first. */
export function filterPaths<T extends { path: string; name: string }>(
  entries: readonly T[],
  query: string,
): T[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean).slice(0, maxWords)
  if (words.length === 0) return [...entries]
  const hasAll = (text: string) => {
    const lowered = text.toLowerCase()
    return words.every((word) => lowered.includes(word))
  }
  const { true: named = [], false: others = [] } = Object.groupBy(
    entries.filter(({ path }) => hasAll(path)),
    ({ name }) => `${hasAll(name)}` as const,
  )
  return [...named, ...others]
}
