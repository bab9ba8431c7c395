import { toData } from './generators.ts'
import { keptHistory } from './kept-history.ts'
import type { Workspace } from './workspace.ts'

const mib = 1024 * 1024
const blobMib = 1024
const wideEntries = 100_000
const diffFiles = 50
const depth = 5000
const blamedLines = 100_000
const blamedCommits = 50
const searchedFiles = 1000
const longLineMib = 15

/** Changed with the contents, so that histories of another version are not reused. */
const version = 1

/** Makes a repository whose branches are hard to read, each in its way, once: it is kept like that of `browse`. */
export async function makeHostileHistory({ git }: Workspace): Promise<string> {
  return keptHistory(`hostile-${version}`, {
    what: 'a hostile history',
    async make(path) {
      await git(['init', '--quiet', '--bare', '--initial-branch=blob', path])
      await git(['-C', path, 'fast-import', '--quiet'], { input: history() })
      await git(['-C', path, 'pack-refs', '--all'])
    },
  })
}

/** What is requested of it: the addresses below that of the repository. */
export const hostileReads = [
  '/file?rev=blob&path=huge',
  '/blame?rev=blob&path=huge',
  '/search?rev=blob&q=none',
  '/commits/blob?diff=1',
  '/tree?rev=wide',
  '/tree?rev=wide&path=wide',
  '/tree?rev=wide&path=wide&recursive=true',
  '/file?rev=wide&path=wide/file-99999',
  '/commits?rev=wide&path=wide/file-99999',
  '/commits/wide?diff=1',
  '/commits/diff?diff=1',
  '/commits/diff?diff=1&path=file-49',
  '/compare?base=blob&head=diff',
  '/tree?rev=deep&path=deep&recursive=true',
  '/tree?rev=deep&recursive=true',
  '/commits/deep?diff=1',
  '/blame?rev=lines&path=lines.txt',
  '/blame?rev=lines&path=lines.txt&start=90000',
  '/commits?rev=lines&path=lines.txt&limit=1000',
  '/commits/lines?diff=1&path=lines.txt',
  '/search?rev=matches&q=x&limit=1000',
  '/search?rev=matches&q=absent',
  '/tree?rev=matches',
  '/blame?rev=long&path=long.txt',
  '/search?rev=long&q=yy',
  '/commits/long?diff=1&path=long.txt',
]

function* history(): Generator<string> {
  yield* commit('blob')
  yield `M 100644 inline huge\ndata ${blobMib * mib}\n`
  for (let part = 0; part < blobMib; part++) yield `${'x'.repeat(mib - 1)}\n`
  yield '\n'

  yield* commit('wide')
  for (let index = 0; index < wideEntries; index++) yield* file(`wide/file-${index}`, 'x\n')

  yield* commit('diff')
  for (let index = 0; index < diffFiles; index++)
    yield* file(`file-${index}`, `${'x'.repeat(99)}\n`.repeat(mib / 100))

  yield* commit('deep')
  yield* file(`deep/${'x/'.repeat(depth)}end`, 'x\n')

  const lines = Array.from({ length: blamedLines }, (_, index) => `line ${index}\n`)
  for (let index = 0; index < blamedCommits; index++) {
    for (let line = index; line < lines.length; line += blamedCommits)
      lines[line] = `${index} ${line}\n`
    yield* commit('lines', index)
    yield* file('lines.txt', lines.join(''))
  }

  yield* commit('matches')
  for (let index = 0; index < searchedFiles; index++)
    yield* file(`${index % 300}/${index}.txt`, 'x\n'.repeat(5000))

  yield* commit('long')
  yield* file('long.txt', 'y'.repeat(longLineMib * mib))
}

function* commit(branch: string, index = 0): Generator<string> {
  yield `commit refs/heads/${branch}\ncommitter A <a@example.com> ${1_700_000_000 + index} +0000\ndata 0\n\n`
}

function* file(path: string, content: string): Generator<string> {
  yield `M 100644 inline ${path}\n${toData(content)}`
}
