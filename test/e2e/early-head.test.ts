import assert from 'node:assert/strict'
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { packet } from '../../src/git/pkt-line.ts'
import { until } from '../support/condition.ts'
import {
  cloneOf,
  type FetchSite,
  fetchBody,
  parseAnswer,
  readWhole,
  saidBy,
  startFetchSite,
} from '../support/fetch-site.ts'
import { git } from '../support/git.ts'
import { signal } from '../support/processes.ts'

const head = packet('packfile\n').toString()
const missing = '1'.repeat(40)

test('a clone and those that share it learn that a pack follows before git has said a word', async () => {
  await using site = await startFetchSite()
  const tip = await pushTip(site)
  await site.hold(0)
  const bodies = [cloneOf(tip), cloneOf(tip)]
  const answers = await Promise.all(bodies.map((body) => site.ask(body).answered))
  for (const answer of answers) {
    assert.deepEqual([answer.statusCode, await nextPiece(answer)], [200, head])
  }
  await site.release()
  const [one, other] = await Promise.all(answers.map(readWhole))
  assert.ok(one && other)
  const whole = Buffer.concat([Buffer.from(head), one.bytes])
  assert.deepEqual(parseAnswer(whole).lines, ['packfile\n', 'flush'])
  assert.equal(saidBy(whole), saidBy(Buffer.concat([Buffer.from(head), other.bytes])))
  // Made anew by git, and then kept: nothing lacks, and nothing was said twice.
  for (let n = 0; n < 3; n++) assert.equal((await site.fetch(cloneOf(tip))).said, saidBy(whole))
})

for (const [what, ...args] of [
  ['what is no tip', `want ${missing}`, 'done'],
  ['a shallow clone', 'deepen 1', 'done'],
  ['a clone into a shallow one', `shallow ${missing}`, 'done'],
  ['a negotiation'],
  ['a filter that git may not know', 'filter blob:limit=99999999999999999999k', 'done'],
  ['two filters', 'filter tree:0', 'filter blob:none', 'done'],
] as const) {
  test(`${what} is answered by git from the first byte`, async () => {
    await using site = await startFetchSite()
    const tip = await pushTip(site)
    await site.hold(0)
    const asked = site.ask(fetchBody(`want ${tip}`, ...args))
    await until('git is at it', () => site.gits().length > 0)
    let hasBegun = false
    const answered = asked.answered.then((answer) => {
      hasBegun = true
      return answer
    })
    // Its answer, asked for later, comes first.
    await site.service.admin.get('/repos')
    assert.equal(hasBegun, false)
    await site.release()
    await readWhole(await answered)
  })
}

test('an object that is gone meanwhile is told of, with the words of git, and nothing is kept', async () => {
  await using site = await startFetchSite()
  await pushTip(site)
  await writeFile(join(site.directory, 'refs/heads/gone'), `${missing}\n`)
  await site.settle()
  for (let n = 1; n <= 3; n++) {
    const { status, bytes, isCut } = await site.fetch(cloneOf(missing))
    assert.deepEqual([status, isCut], [200, false])
    const { lines } = parseAnswer(bytes)
    const [first, second, ...others] = lines
    assert.deepEqual(
      [first, second, others],
      ['packfile\n', `\x03upload-pack: not our ref ${missing}`, []],
    )
    assert.deepEqual(await site.sources(), { missed: n })
  }
  assert.match(
    await metrics(site),
    /operations_total\{kind="fetch",door="http",outcome="failed"\} 3/,
  )
})

test('git’s client says what is wrong, too', async () => {
  await using site = await startFetchSite()
  await pushTip(site)
  await writeFile(join(site.directory, 'refs/heads/gone'), `${missing}\n`)
  await site.settle()
  await git(site.folder, ['init', '--quiet', 'client'])
  const fetching = git(join(site.folder, 'client'), ['fetch', site.remote, missing])
  await assert.rejects(fetching, /upload-pack: not our ref 1{40}/)
})

test('when git is killed before it has said anything, its client is told, and cut off', async () => {
  await using site = await startFetchSite()
  const body = cloneOf(await pushTip(site))
  await site.hold(0)
  const answer = await site.ask(body).answered
  assert.equal(await nextPiece(answer), head)
  for (const pid of site.gits()) signal(pid, 'SIGKILL')
  const { bytes, isCut } = await readWhole(answer)
  assert.equal(isCut, true)
  assert.match(bytes.toString(), /^[0-9a-f]{4}\x03upload-pack: /)
  await site.release()
  const { lines } = parseAnswer((await site.fetch(body)).bytes)
  assert.deepEqual(lines, ['packfile\n', 'flush'])
  assert.equal((await site.sources()).missed, 2)
})

test('a pack that cannot be made fails as git has it fail', async () => {
  await using site = await startFetchSite()
  await pushTip(site)
  const broken = await site.project.commit('broken')
  await copyObject(site, broken)
  await writeFile(join(site.directory, 'refs/heads/broken'), `${broken}\n`)
  await site.settle()
  const { bytes, isCut } = await site.fetch(cloneOf(broken))
  assert.equal(isCut, false)
  const { lines } = parseAnswer(bytes)
  assert.equal(lines[0], 'packfile\n')
  assert.match(lines.at(-1) ?? '', /^\x03aborting due to possible repository corruption/)
  assert.match(
    await metrics(site),
    /operations_total\{kind="fetch",door="http",outcome="failed"\} 1/,
  )
})

/** Pushes a commit to `main`, and waits until its answers can be kept; its id. */
async function pushTip(site: FetchSite): Promise<string> {
  await site.push('HEAD:main')
  await site.settle()
  return site.project.git('rev-parse', 'HEAD')
}

async function metrics({ service }: FetchSite): Promise<string> {
  return (await service.admin.get('/metrics')).text
}

/** Gives the server a commit, and nothing of what it consists of. */
async function copyObject({ project, directory }: FetchSite, id: string): Promise<void> {
  const path = join('objects', id.slice(0, 2), id.slice(2))
  await mkdir(join(directory, dirname(path)), { recursive: true })
  await copyFile(join(project.path, '.git', path), join(directory, path))
}

async function nextPiece(answer: IncomingMessage): Promise<string> {
  const piece = await until(
    'something is said',
    () => (answer.read() as Buffer | null) ?? undefined,
  )
  return piece.toString('latin1')
}
