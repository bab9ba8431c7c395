import { once } from 'node:events'
import { git, spawnGit, temporaryFolder } from './git.ts'
import { idDigits } from './object-format.ts'
import { createRandom } from './random.ts'
import { type Client, startService } from './service.ts'

/** The service with a repository `site`, and a local one that pushes to it. */
export async function startBrowseSite(env: Record<string, string> = {}) {
  await using started = new AsyncDisposableStack()
  const service = started.use(await startService({ env }))
  const folder = started.use(await temporaryFolder())
  const { admin } = service
  await admin.post('/repos', { name: 'site' })
  const run = async (...args: string[]) => (await git(folder.path, args)).stdout
  await run('init', '--quiet', '--bare', '--initial-branch=main')
  const resources = started.move()
  return {
    service,
    admin,
    path: folder.path,
    git: run,
    /** Writes commits with git-fast-import(1), given as bytes (latin1). */
    importCommits: (text: string) => importCommits(folder.path, text),
    push: (...refspecs: string[]) => run('push', '--quiet', admin.remote('site'), ...refspecs),
    [Symbol.asyncDispose]: () => resources[Symbol.asyncDispose](),
  }
}

async function importCommits(path: string, text: string): Promise<void> {
  const child = spawnGit(path, ['fast-import', '--quiet', '--force'])
  const ended = once(child, 'close')
  let complaint = ''
  child.stderr.on('data', (chunk) => {
    complaint += chunk
  })
  child.stdin.end(Buffer.from(text, 'latin1'))
  const [exitCode] = await ended
  if (exitCode !== 0) throw new Error(`git fast-import ended with ${exitCode}: ${complaint}`)
}

/** Quotes a path of bytes (latin1) for git-fast-import(1). */
export function quoteForImport(path: string): string {
  const escaped = path.replace(
    /[^ !#-[\]-~]/g,
    (one) => `\\${one.charCodeAt(0).toString(8).padStart(3, '0')}`,
  )
  return `"${escaped}"`
}

/** Names as bytes (latin1), all of which git allows. */
export const oddNames = [
  'plain.txt',
  'folder/inner.txt',
  'folder/deep/er.txt',
  'x b/y',
  'a "quoted" name',
  'ta\tb',
  'line\nfeed',
  'diff --git a/x b/x',
  'co:lon',
  ':(top)magic*?[x]',
  '-dash',
  'back\\slash\\101',
  '\xc3\xa9t\xc3\xa9',
  'not utf-8 \xff\xe9',
] as const

/** The addresses of all pages of a list, and their rows. */
export async function readPages<Row = { id: string }>(client: Client, path: string) {
  const rows: Row[] = []
  const addresses: string[] = []
  for (let next: string | undefined = path; next !== undefined; ) {
    const { status, body, text, headers } = await client.get(next)
    if (status !== 200) throw new Error(text)
    rows.push(...body)
    addresses.push(next)
    next = /^<([^>]+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1]
  }
  return { rows, addresses }
}

const authors = [
  'Ada <ada@example.com>',
  'Grace Hopper <grace@example.com>',
  'a.*b <odd@example.com>',
  '\xc3\x89va <eva@example.com>',
] as const

/** A stream for git-fast-import(1): a history with merges, renames, and dates that are equal or out of order. */
export function randomHistory({ seed, commits }: { seed: number; commits: number }): string {
  const random = createRandom(seed)
  const lines: string[] = []
  const modes = ['100644', '100755', '120000', '160000'] as const
  const data = (text: string) => `data ${text.length}\n${text}`
  let time = 1_700_000_000
  let [main, side] = [0, 0]
  const trees: Set<string>[] = [new Set()]
  for (let mark = 1; mark <= commits; mark++) {
    time += random.pick([0, 0, 60, 3600, -1800])
    const isSide = mark > 2 && random.chance(0.35)
    const from = isSide ? side : main
    const merged = !isSide && side > 0 && random.chance(0.4) ? side : 0
    if (isSide) side = mark
    else {
      main = mark
      // The next side begins here.
      if (merged > 0 || side === 0) side = mark
    }
    lines.push(
      `commit refs/heads/${isSide ? 'side' : 'main'}`,
      `mark :${mark}`,
      `author ${random.pick(authors)} ${time - random.below(5000)} +0100`,
      `committer Bob <bob@example.com> ${time} -0230`,
      data(`Commit ${mark}\n\nIts body\n`),
      ...(from > 0 ? [`from :${from}`] : []),
      ...(merged > 0 && merged !== from ? [`merge :${merged}`] : []),
    )
    const names = new Set(trees[from])
    trees[mark] = names
    for (let change = random.below(4); change >= 0; change--) {
      const name = random.pick(oddNames)
      const [old] = names
      const path = quoteForImport(name)
      const mode = random.pick(modes)
      if (old !== undefined && old !== name && random.chance(0.2)) {
        lines.push(`R ${quoteForImport(old)} ${path}`)
        names.delete(old)
        names.add(name)
        continue
      }
      const isDeleted = random.chance(0.15)
      if (isDeleted) names.delete(name)
      else names.add(name)
      if (isDeleted) lines.push(`D ${path}`)
      else if (mode === '160000')
        lines.push(`M ${mode} ${String(1 + random.below(9)).repeat(idDigits)} ${path}`)
      else lines.push(`M ${mode} inline ${path}`, data(contentOf(random.below(1000))))
    }
    lines.push('')
  }
  return lines.join('\n')
}

function contentOf(seed: number): string {
  const random = createRandom(seed)
  const texts = ['red', 'green', 'diff --git a/x b/x', 'cr\r', '\xff\xfe', '', '\xc3\xbc'] as const
  if (random.chance(0.1)) return `binary\0${seed}`
  const lines = Array.from({ length: random.below(12) }, () => random.pick(texts))
  return lines.join('\n') + (random.chance(0.5) ? '\n' : '')
}
