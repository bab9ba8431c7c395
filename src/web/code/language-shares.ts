import { LRUCache } from 'lru-cache'
import { grouped } from '../display-text.ts'
import type { SharedContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { toQuery } from './code-target.ts'

type CountedTree = Pick<OperationValues['getTree'], 'commit' | 'id' | 'entries' | 'nextCursor'>
type Entry = CountedTree['entries'][number]
/** The bytes of the files of a folder by language, and how many files and folders are in it. */
type Count = { bytes: ReadonlyMap<string, number>; entries: number; isComplete: boolean }
type Share = { language: string; percent: number }
type Counted = { shares: Share[]; isComplete: boolean }

const maxEntries = 5000
const pageSize = 1000
const shownLanguages = 5
const shownPercent = 0.1
const other = 'Other'
// By the id of a tree, on which alone they depend.
const known = new LRUCache<string, Counted>({ max: 1000 })
// The same of the folders of a root, few of which change with a commit.
const knownFolders = new LRUCache<string, Count>({ maxSize: 10_000, sizeCalculation: () => 1 })

/** The languages of a tree as a bar, by the bytes of its files. */
export async function languageBar(
  context: SharedContext,
  tree: CountedTree,
): Promise<Html | undefined> {
  const counted = known.get(tree.id) ?? (await count(context, tree))
  known.set(tree.id, counted)
  const { shares, isComplete } = counted
  if (shares.length === 0) return undefined
  const tones = shares.map(({ language }, index) =>
    language === other ? 'lang-x' : `lang-${index}`,
  )
  const starts = shares.map((_, index) =>
    shares.slice(0, index).reduce((sum, { percent }) => sum + percent, 0),
  )
  return html`<section><h2>Languages</h2>
<svg class="shares" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">${shares.map(
    ({ percent }, index) =>
      html`<rect class="${tones[index]}" x="${starts[index]}" width="${Math.max(0.2, percent - 0.5)}" height="1"/>`,
  )}</svg>
<ul class="legend">${shares.map(
    ({ language, percent }, index) =>
      html`<li><svg class="dot" viewBox="0 0 8 8" aria-hidden="true"><circle class="${tones[index]}" cx="4" cy="4" r="4"/></svg><span>${language} <span class="soft">${percent.toFixed(1)}%</span></span></li>`,
  )}</ul>
${!isComplete && html`<p class="help">Of the first ${grouped(maxEntries)} files and folders.</p>`}</section>`
}

async function count(context: SharedContext, tree: CountedTree): Promise<Counted> {
  const { commit, entries, nextCursor } = tree
  const isListed = nextCursor === null && !context.query.has('cursor')
  const { bytes, isComplete } = isListed
    ? await countRoot(context, commit, entries)
    : await countBelow(context, toQuery(commit, { path: '' }), maxEntries)
  return { shares: toShares(bytes), isComplete }
}

/** Counts the entries of a root, which are listed, and what is in its folders. */
async function countRoot(
  context: SharedContext,
  commit: string,
  listed: readonly Entry[],
): Promise<Count> {
  const bytes = new Map<string, number>()
  let entries = 0
  for (const entry of listed) {
    entries += 1
    if (entries > maxEntries) return { bytes, entries, isComplete: false }
    add(bytes, entry)
    if (entry.type !== 'folder') continue
    const left = maxEntries - entries
    const cached = knownFolders.get(entry.id)
    const folder =
      cached && cached.entries <= left
        ? cached
        : await countBelow(context, toQuery(commit, entry), left)
    for (const [language, size] of folder.bytes)
      bytes.set(language, (bytes.get(language) ?? 0) + size)
    entries += folder.entries
    if (!folder.isComplete) return { bytes, entries, isComplete: false }
    knownFolders.set(entry.id, folder)
  }
  return { bytes, entries, isComplete: true }
}

/** Counts what is in a folder and below it, up to a number of entries. */
async function countBelow(
  { readPage }: SharedContext,
  folder: Record<string, string>,
  max: number,
): Promise<Count> {
  const bytes = new Map<string, number>()
  let entries = 0
  let cursor: string | undefined
  do {
    const limit = Math.min(pageSize, max - entries)
    if (limit === 0) return { bytes, entries, isComplete: false }
    const { value, next } = await readPage('getTree', {
      query: { ...folder, recursive: true, limit, cursor },
    })
    for (const entry of value.entries) add(bytes, entry)
    entries += value.entries.length
    cursor = next
  } while (cursor !== undefined)
  return { bytes, entries, isComplete: true }
}

function add(bytes: Map<string, number>, { name, type, size }: Entry): void {
  const language = type === 'file' ? languageNamed(name) : undefined
  if (language !== undefined) bytes.set(language, (bytes.get(language) ?? 0) + (size ?? 0))
}

/** The largest languages in percent of all bytes, and the rest as one. */
export function toShares(bytes: ReadonlyMap<string, number>): Share[] {
  const total = [...bytes.values()].reduce((sum, value) => sum + value, 0)
  if (total === 0) return []
  const shown = [...bytes]
    .sort(([, one], [, another]) => another - one)
    .map(([language, value]) => ({ language, percent: (value / total) * 100 }))
    .slice(0, shownLanguages)
    .filter(({ percent }) => percent >= shownPercent)
  const rest = 100 - shown.reduce((sum, { percent }) => sum + percent, 0)
  return rest >= shownPercent ? [...shown, { language: other, percent: rest }] : shown
}

/** The programming language of a file by its name; undefined for prose and data, which would hide the code. */
export function languageNamed(fileName: string): string | undefined {
  const name = fileName.toLowerCase()
  return byName.get(name) ?? byExtension.get(name.slice(name.lastIndexOf('.') + 1))
}

const byName = new Map([
  ['makefile', 'Makefile'],
  ['gnumakefile', 'Makefile'],
  ['dockerfile', 'Dockerfile'],
  ['containerfile', 'Dockerfile'],
])

const byExtension = new Map(
  Object.entries({
    Assembly: 's asm',
    C: 'c h',
    'C#': 'cs',
    'C++': 'cc cpp cxx hh hpp hxx',
    Clojure: 'clj cljs cljc',
    CMake: 'cmake',
    CSS: 'css',
    Dart: 'dart',
    Elixir: 'ex exs',
    Erlang: 'erl hrl',
    'F#': 'fs fsx',
    Go: 'go',
    Groovy: 'groovy gradle',
    Haskell: 'hs',
    HTML: 'html htm',
    Java: 'java',
    JavaScript: 'js mjs cjs jsx',
    Julia: 'jl',
    Kotlin: 'kt kts',
    Lua: 'lua',
    Makefile: 'mk',
    Nix: 'nix',
    'Objective-C': 'm mm',
    OCaml: 'ml mli',
    Perl: 'pl pm t',
    PHP: 'php',
    PowerShell: 'ps1 psm1',
    Python: 'py pyi',
    R: 'r',
    Ruby: 'rb',
    Rust: 'rs',
    Scala: 'scala sc',
    SCSS: 'scss sass',
    Shell: 'sh bash zsh fish',
    SQL: 'sql',
    Svelte: 'svelte',
    Swift: 'swift',
    Tcl: 'tcl tk',
    TeX: 'tex sty',
    TypeScript: 'ts mts cts tsx',
    'Vim script': 'vim',
    Vue: 'vue',
    Zig: 'zig',
  }).flatMap(([language, extensions]) =>
    extensions.split(' ').map((extension): [string, string] => [extension, language]),
  ),
)
