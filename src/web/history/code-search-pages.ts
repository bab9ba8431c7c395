import { apiPathOf } from '#base/repository-name.ts'
import { orNoCommits } from '../code/empty-repository.ts'
import { breakable, counted, grouped } from '../display-text.ts'
import { icon } from '../icons.ts'
import { cachedPage, type SharedContext, type View } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { markedText } from '../render/mark-html.ts'

const maxMatches = 200

export const codeSearchPages = [
  cachedPage('/r/:name/search', ['getRepository', 'searchCode'], {
    weight: 'heavy',
    audience: 'all',
    styles: 'search',
    async show(context) {
      const { query, read } = context
      const q = query.get('q') ?? ''
      const { defaultBranch } = await read('getRepository')
      const rev = query.get('rev')?.trim() || defaultBranch
      const search = { q, rev, path: query.get('path')?.trim() ?? '', hasAnyCase: query.has('i') }
      if (q === '') return searchView(context, search, undefined)
      const target = { rev, path: { path: '' } }
      return orNoCommits(context, { ...target, tab: 'code' }, async () => {
        const result = await read('searchCode', {
          query: {
            q: q.slice(0, 200),
            rev,
            limit: maxMatches,
            ...(search.path !== '' && { path: search.path }),
            ...(search.hasAnyCase && { ignoreCase: true }),
          },
        })
        return searchView(context, search, result)
      })
    },
  }),
]

type Search = { q: string; rev: string; path: string; hasAnyCase: boolean }
type Result = OperationValues['searchCode']
type Match = Result['matches'][number]

function searchView(
  { params, to }: SharedContext,
  search: Search,
  result: Result | undefined,
): View {
  const name = params.name ?? ''
  const { q, rev, path, hasAnyCase } = search
  const files = byFile(result?.matches ?? [])
  return {
    title: `${q === '' ? 'Search' : `“${q}”`} · ${name}`,
    repository: name,
    tab: 'code',
    crumbs: [{ text: 'search' }],
    isNoIndex: true,
    ...(result && {
      json: `${apiPathOf(name)}/search?${new URLSearchParams({ q, rev })}`,
    }),
    body: html`<div class="page-head"><h1>Search</h1></div>
<form class="inline search-form" action="${to.of(name, 'search')}">
<label for="q" class="hidden">Text</label><input id="q" name="q" type="search" value="${q}" maxlength="200" required placeholder="Text, not a pattern"${q === '' && html` autofocus`}>
<label for="rev" class="hidden">Branch, tag or commit</label><input id="rev" name="rev" value="${rev}" maxlength="1024" spellcheck="false">
<label for="path" class="hidden">Folder or file</label><input id="path" name="path" value="${path}" maxlength="4096" placeholder="all folders" spellcheck="false">
<label class="nowrap"><input type="checkbox" name="i"${hasAnyCase && html` checked`}>Any case</label>
<button class="primary">Search</button>
</form>
${result && summaryOf(result, files.length, search)}
${files.map((matches) => fileMatches(matches, { name, rev, hasAnyCase, to }))}`,
  }
}

function summaryOf(
  { matches, isComplete, limits, leftOut = [] }: Result,
  files: number,
  { q, rev }: Search,
): Html {
  if (matches.length === 0 && isComplete)
    return html`<section class="empty">${icon('search', 'large')}<h2>No file has “${q}”</h2>
<p class="soft">Searched at ${rev}. Binary files and submodules are not searched.</p></section>`
  const reasons = limits.map((limit) => limitTexts[limit] ?? limit)
  return html`<p class="soft search-count">${counted(matches.length, 'line')} in ${counted(files, 'file')}${reasons.length > 0 && html`. Not everything: ${reasons.join('; ')}`}${
    leftOut.length > 0 &&
    html` (${leftOut.slice(0, 10).map(({ path }, index) => `${index > 0 ? ', ' : ''}${path}`)})`
  }.</p>`
}

const limitTexts: Record<string, string> = {
  matches: `only the first ${grouped(maxMatches)} lines are shown`,
  matches_per_file: 'only the first 100 lines of a file are shown',
  bytes: 'there are too many lines to read all',
  time: 'the search took too long',
  file_size: 'very large files are left out',
}

function byFile(matches: readonly Match[]): Match[][] {
  const files: Match[][] = []
  for (const match of matches) {
    const last = files.at(-1)
    const [first] = last ?? []
    if (first && first.path === match.path && first.pathBase64 === match.pathBase64)
      last?.push(match)
    else files.push([match])
  }
  return files
}

type FileContext = Pick<Search, 'rev' | 'hasAnyCase'> & Pick<SharedContext, 'to'> & { name: string }

function fileMatches(matches: readonly Match[], { name, rev, hasAnyCase, to }: FileContext): Html {
  const [first] = matches
  if (!first) return html``
  const href = to.src(name, rev, first)
  return html`<section class="card hits"><header><h2 class="mono"><a href="${href}">${breakable(first.path)}</a></h2><span class="soft">${matches.length}</span></header>
<table class="diff-lines"><caption class="hidden">Lines of ${first.path} with the text</caption><colgroup><col class="numbers"><col></colgroup><tbody>
${matches.map((match) => {
  const { line, text, isCut } = match
  return html`<tr><td class="no"><a href="${href}#L${line}">${line}</a><td>${isCut && '…'}${markedText(text, occurrencesIn(match, hasAnyCase), 'mark')}${isCut && '…'}`
})}
</tbody></table></section>`
}

/** All places of a line that have the text of its first match. */
function occurrencesIn(
  { text, matchStart, matchLength }: Match,
  hasAnyCase: boolean,
): [number, number][] {
  const end = matchStart + matchLength
  const lower = text.toLowerCase()
  // Some letters have a longer lower case, such as İ; places would differ.
  const line = hasAnyCase && lower.length === text.length ? lower : text
  const found = line.slice(matchStart, end)
  const places: [number, number][] = [[matchStart, end]]
  for (let at = end; found !== ''; at += matchLength) {
    at = line.indexOf(found, at)
    if (at === -1) break
    places.push([at, at + matchLength])
  }
  return places
}
