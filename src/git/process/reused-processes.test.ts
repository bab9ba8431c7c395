import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../../../test/support/condition.ts'
import { createProject } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { gitCommands } from './commands.ts'
import { createGit } from './git-process.ts'
import { closeReadersOf } from './process-pool.ts'
import { createReusedProcesses, type ReusedProcess } from './reused-processes.ts'

const untilEnd = new AbortController().signal
const limits = { memoryMaxBytes: 1024 ** 3 }

async function createSite() {
  const project = await createProject()
  const first = await project.git('rev-parse', 'HEAD')
  const second = await project.commit('second.txt', 'x\n'.repeat(200_000))
  const directory = join(project.path, '.git')
  const git = createGit({ settings: gitLimits, owner: 'test', path: process.env.PATH ?? '' })
  let started = 0
  const counting: Pick<typeof git, 'start'> = {
    async start(command, options) {
      started += 1
      return git.start(command, options)
    },
  }
  const reused = createReusedProcesses({ git: counting, maxIdle: 2 })
  return {
    git,
    reused,
    directory,
    command: gitCommands.diffEach(directory),
    input: `${second} ${first}\n`,
    expected: `${second}\0${await project.git('diff-tree', '-r', '-z', '--raw', '--no-abbrev', '--full-index', '--patch', first, second)}\n`,
    started: () => started,
    async [Symbol.asyncDispose]() {
      await reused[Symbol.asyncDispose]()
      await project[Symbol.asyncDispose]()
    },
  }
}

async function readAll(child: ReusedProcess, input: string): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of child.respond(input, untilEnd)) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

test('a process responds to one request after another, each with what git prints alone', async () => {
  await using site = await createSite()
  for (let count = 0; count < 5; count++) {
    await using child = await site.reused.acquire(site.command, limits)
    assert.equal(await readAll(child, site.input), site.expected)
  }
  assert.equal(site.started(), 1)
  await using one = await site.reused.acquire(site.command, limits)
  await using other = await site.reused.acquire(site.command, limits)
  const both = [readAll(one, site.input), readAll(other, site.input)]
  assert.deepEqual(await Promise.all(both), [site.expected, site.expected])
  assert.equal(site.started(), 2)
})

test('a process whose response was not read to its end is ended', async () => {
  await using site = await createSite()
  {
    await using child = await site.reused.acquire(site.command, limits)
    for await (const _ of child.respond(site.input, untilEnd)) break
  }
  assert.equal(site.git.count(), 0)
  const aborted = new AbortController()
  {
    await using child = await site.reused.acquire(site.command, limits)
    const reading = async () => {
      for await (const _ of child.respond(site.input, aborted.signal)) aborted.abort()
    }
    await assert.rejects(reading(), { name: 'AbortError' })
  }
  assert.equal(site.git.count(), 0)
  await using child = await site.reused.acquire(site.command, limits)
  assert.equal(await readAll(child, site.input), site.expected)
})

test('a process that ends is replaced, and no more than a few are kept', async () => {
  await using site = await createSite()
  {
    await using child = await site.reused.acquire(site.command, limits)
    await readAll(child, site.input)
  }
  const absent = 'f'.repeat(40)
  {
    await using child = await site.reused.acquire(site.command, limits)
    const broken = site.input.replace(/ .*/, ` ${absent}`)
    await assert.rejects(readAll(child, broken), /diff-tree|bad object|Could not/)
    assert.ok(child.hasWornOut())
  }
  assert.equal(site.git.count(), 0)
  {
    await using stack = new AsyncDisposableStack()
    for (let count = 0; count < 4; count++)
      stack.use(await site.reused.acquire(site.command, limits))
    assert.equal(site.git.count(), 4)
  }
  await until('two are left', () => site.git.count() === 2)
  await site.reused[Symbol.asyncDispose]()
  assert.equal(site.git.count(), 0)
})

test('the processes of a repository end when its readers are closed, one in use with its response', async () => {
  await using site = await createSite()
  const { directory } = site
  {
    await using first = await site.reused.acquire(site.command, limits)
    await using second = await site.reused.acquire(site.command, limits)
    for (const child of [first, second])
      assert.equal(await readAll(child, site.input), site.expected)
  }
  assert.equal(site.git.count(), 2)
  await using used = await site.reused.acquire(site.command, limits)
  await closeReadersOf(directory)
  assert.equal(site.git.count(), 1)
  assert.equal(await readAll(used, site.input), site.expected)
  await used[Symbol.asyncDispose]()
  assert.equal(site.git.count(), 0)
})
