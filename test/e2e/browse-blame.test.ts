// Tags: each-store

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { gitWithBytes, importOddHistory } from '../support/odd-history.ts'
import { type Service, startService } from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

const gitProgram = execFileSync('which', ['git'], { encoding: 'utf8' }).trim()

let service: Service

before(async () => {
  service = await startService()
})

after(() => service[Symbol.asyncDispose]())

type Range = {
  start: number
  count: number
  commit: string
  originalPath: string
  originalPathBase64?: string
  originalStart: number
  lines: string[]
}

const blame = async (name: string, query: Record<string, string | number>) => {
  const parameters = Object.entries(query).map(([key, value]) => [key, String(value)])
  return service.admin.get(`/repos/${name}/blame?${new URLSearchParams(parameters)}`)
}

/** A line as `git blame` shows it. */
type Line = { commit: string; originalLine: number; path: string; text: string }

/** Parses the output of `git blame --line-porcelain`, given as bytes. */
function parseLines(output: string): Line[] {
  const lines: Line[] = []
  let header: string[] = []
  let path = ''
  for (const line of output.split('\n')) {
    if (/^[0-9a-f]{40,64} /.test(line)) header = line.split(' ')
    else if (line.startsWith('filename ')) path = line.slice('filename '.length)
    else if (line.startsWith('\t')) {
      lines.push({
        commit: header[0] ?? '',
        originalLine: Number(header[1]),
        path: path.startsWith('"') ? unquote(path) : path,
        text: Buffer.from(line.slice(1), 'latin1').toString('utf8'),
      })
    }
  }
  return lines
}

/** Imports a history of a file in which each line is of another commit. */
async function importLines(path: string, count: number): Promise<void> {
  await mkdir(path)
  await git(path, ['init', '--quiet', '--initial-branch=main'])
  const lines = Array.from({ length: count }, (_, index) => `line ${index}`)
  const stream = lines.flatMap((_, index) => {
    const content = lines.map((line, at) => `${line}${at <= index ? ', changed' : ''}\n`).join('')
    return [
      'commit refs/heads/main',
      `committer Ada <ada@example.com> ${1_700_000_000 + index} +0000`,
      `data 0\nM 100644 inline a.txt\ndata ${content.length}\n${content}`,
    ]
  })
  execFileSync('git', ['fast-import', '--quiet'], { cwd: path, input: `${stream.join('\n')}\n` })
}

const letters: Record<string, string> = { n: '\n', t: '\t', r: '\r' }

function unquote(path: string): string {
  return path
    .slice(1, -1)
    .replace(/\\(\d{3}|.)/g, (_, code) =>
      code.length === 3 ? String.fromCharCode(Number.parseInt(code, 8)) : (letters[code] ?? code),
    )
}

function toLines(ranges: Range[]): Line[] {
  return ranges.flatMap((range) => {
    const bytes = range.originalPathBase64
      ? Buffer.from(range.originalPathBase64, 'base64')
      : Buffer.from(range.originalPath)
    return range.lines.map((text, index) => ({
      commit: range.commit,
      originalLine: range.originalStart + index,
      path: bytes.toString('latin1'),
      text,
    }))
  })
}

for (const seed of [1, 2, 3])
  test(`blame is that of git: history ${seed}`, exhaustive, async () => {
    await using folder = await temporaryFolder()
    const name = `odd-${seed}`
    await git(folder.path, ['init', '--quiet', '--bare', '--initial-branch=main'])
    const files = await importOddHistory(folder.path, { seed, commits: 80 })
    await service.admin.post('/repos', { name })
    await git(folder.path, ['push', '--quiet', service.admin.remote(name), 'main'])
    assert.ok(files.length > 0)
    for (const file of files) {
      const pathBase64 = Buffer.from(file, 'latin1').toString('base64')
      const { status, body, text } = await blame(name, { pathBase64 })
      assert.equal(status, 200, text)
      const wanted = await gitWithBytes(folder.path, [
        'blame',
        '--line-porcelain',
        'main',
        '--',
        file,
      ])
      const lines = parseLines(wanted.toString('latin1'))
      assert.deepEqual(toLines(body.ranges), lines, file)
      assert.equal(body.totalLines, lines.length)
      const groups = await gitWithBytes(folder.path, ['blame', '--porcelain', 'main', '--', file])
      const heads = groups.toString('latin1').match(/^[0-9a-f]{40,64} \d+ \d+ \d+$/gm) ?? []
      const shown = body.ranges.map(
        ({ commit, originalStart, start, count }: Range) =>
          `${commit} ${originalStart} ${start} ${count}`,
      )
      assert.deepEqual(shown, heads, file)
      const ids = body.commits.map(({ id }: { id: string }) => id)
      assert.deepEqual(ids.toSorted(), [...new Set(lines.map(({ commit }) => commit))].sort())
      for (const { author, committer, summary } of body.commits) {
        assert.deepEqual([author.name, author.timeZone], ['Ada', '+0100'])
        assert.deepEqual([committer.name, committer.timeZone], ['Bob', '-0230'])
        assert.match(summary, /^Commit \d+$/)
      }
    }
  })

test('a file can be blamed piece by piece', async () => {
  const text = Array.from({ length: 10 }, (_, index) => `line ${index + 1}\n`).join('')
  await pushFiles(service.admin, 'pieces', { 'ten.txt': text })
  const whole = await blame('pieces', { path: 'ten.txt' })
  assert.equal(whole.body.next, undefined)
  const piece = await blame('pieces', { path: 'ten.txt', start: 3, end: 5 })
  const [range] = piece.body.ranges
  assert.deepEqual([range.start, range.originalStart, range.count], [3, 3, 3])
  assert.deepEqual(range.lines, ['line 3', 'line 4', 'line 5'])
  assert.equal(piece.body.next, undefined)
  const rest = await blame('pieces', { path: 'ten.txt', start: 9, end: 1000 })
  assert.deepEqual(rest.body.ranges[0].lines, ['line 9', 'line 10'])
  const past = await blame('pieces', { path: 'ten.txt', start: 11 })
  assert.deepEqual([past.status, past.body.code], [400, 'invalid_request'])
  assert.match(past.body.detail, /has 10 lines/)
  const reversed = await blame('pieces', { path: 'ten.txt', start: 3, end: 2 })
  assert.deepEqual([reversed.status, reversed.body.code], [400, 'invalid_request'])
})

test('a long file comes in pages, and long lines are cut', async () => {
  const lines = Array.from({ length: 10_001 }, (_, index) => `${index}`)
  const long = 'é'.repeat(10_000)
  await pushFiles(service.admin, 'long', { 'long.txt': `${lines.join('\n')}\n${long}` })
  const { body } = await blame('long', { path: 'long.txt' })
  assert.deepEqual([body.totalLines, body.next, body.ranges[0].count], [10_002, 10_001, 10_000])
  const rest = await blame('long', { path: 'long.txt', start: body.next })
  const [range] = rest.body.ranges
  assert.deepEqual(range.lines, ['10000', 'é'.repeat(5000)])
  assert.deepEqual([range.cutLines, rest.body.next], [[10_002], undefined])
})

test('an unchanged blame is not sent again', async () => {
  await pushFiles(service.admin, 'same', { 'a.txt': 'a\n' })
  const { headers } = await blame('same', { path: 'a.txt' })
  const response = await fetch(`${service.url}/repos/same/blame?path=a.txt`, {
    headers: {
      authorization: `Bearer ${service.admin.token}`,
      'if-none-match': headers.get('etag') ?? '',
    },
  })
  assert.equal(response.status, 304)
})

test(
  'a blame of many commits is kept in a file, and is not computed again',
  exhaustive,
  async () => {
    await using site = await temporaryFolder()
    const dataDir = join(site.path, 'data')
    const bin = join(site.path, 'bin')
    await mkdir(bin)
    const script = `#!/bin/sh\ncase "$*" in *" blame "*) exit 99;; esac\nexec ${gitProgram} "$@"\n`
    await writeFile(join(bin, 'git'), script, { mode: 0o755 })
    const withoutBlame = { PATH: `${bin}:${process.env.PATH}` }

    const { whole, few } = await (async () => {
      await using first = await startService({ dataDir })
      const history = join(site.path, 'history')
      await importLines(history, 25)
      await first.admin.post('/repos', { name: 'kept' })
      await git(history, ['push', '--quiet', first.admin.remote('kept'), 'main'])
      const whole = await first.admin.get('/repos/kept/blame?path=a.txt')
      const few = await first.admin.get('/repos/kept/blame?path=a.txt&end=3')
      assert.deepEqual([whole.body.commits.length, few.body.commits.length], [25, 3])
      return { whole, few }
    })()

    await using second = await startService({ dataDir, env: withoutBlame })
    const again = await second.admin.get('/repos/kept/blame?path=a.txt')
    assert.deepEqual([again.status, again.text], [200, whole.text])
    assert.equal(again.headers.get('etag'), whole.headers.get('etag'))
    assert.notEqual((await second.admin.get('/repos/kept/blame?path=a.txt&end=3')).status, 200)
    await second.end('SIGTERM')

    // What cannot be read is computed again, and what cannot be kept is sent all the same.
    const folder = join(dataDir, 'browse', 'blame')
    await rm(folder, { recursive: true })
    await writeFile(folder, '')
    await using third = await startService({ dataDir })
    for (const [query, before] of [
      ['', whole],
      ['&end=3', few],
    ] as const) {
      const answer = await third.admin.get(`/repos/kept/blame?path=a.txt${query}`)
      assert.deepEqual([answer.status, answer.text], [200, before.text])
    }
    assert.match(third.log(), /blame cannot be kept/)
  },
)

test('what has no lines is refused with a reason', async () => {
  await pushFiles(service.admin, 'reasons', { 'folder/a.txt': 'a\n', 'b.bin': 'a\0b', 'c.txt': '' })
  const refusal = async (query: Record<string, string>) => {
    const { status, body } = await blame('reasons', query)
    return [status, body.code, body.detail]
  }
  assert.deepEqual(await refusal({ path: 'folder' }), [
    404,
    'path_not_found',
    '"folder" is a folder, not a file.',
  ])
  assert.deepEqual(await refusal({ path: 'b.bin' }), [
    422,
    'file_binary',
    '"b.bin" is a binary file: it has no lines.',
  ])
  assert.equal((await refusal({ path: 'none' }))[1], 'path_not_found')
  assert.equal((await refusal({}))[1], 'invalid_request')
  assert.equal((await refusal({ path: 'c.txt', rev: 'main~1' }))[1], 'revision_not_found')
  const empty = await blame('reasons', { path: 'c.txt' })
  assert.deepEqual([empty.body.ranges, empty.body.totalLines], [[], 0])
})
