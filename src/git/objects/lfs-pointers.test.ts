import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { createProject } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { createGit, GitError } from '../process/git-process.ts'
import { findLfsObjects } from './lfs-pointers.ts'

const path = process.env.PATH ?? ''
const tooLittle = 64 * 1024
const git = createGit({ settings: gitLimits, owner: 'test', path })
const starved = createGit({
  settings: { ...gitLimits, gitMemoryMaxBytes: tooLittle },
  owner: 'test',
  path,
})
const search = { options: {}, signal: new AbortController().signal, onBatch: () => {} }
const id = (digit: string) => digit.repeat(64)
const pointerTo = (digit: string) =>
  `version https://git-lfs.github.com/spec/v1\noid sha256:${id(digit)}\nsize 12\n`

async function projectWith(files: string[]) {
  const project = await createProject()
  for (const [index, text] of files.entries()) await project.commit(`file-${index}`, text)
  return { ...project, directory: join(project.path, '.git') }
}

test('pointers are found in every commit, by their form', async () => {
  await using project = await projectWith([
    pointerTo('a'),
    pointerTo('b').replaceAll('\n', '\r\n'),
    pointerTo('c').replace('https://git-lfs', 'https://hawser'),
    `${pointerTo('d')}\n\n`,
    pointerTo('e').replace('oid', 'ext-0-x y\noid').replace('size ', 'ext-1-z y\nsize +'),
    pointerTo('0').replace('/v1', '/v9'),
    pointerTo('1').replace('size 12', 'size 0'),
    pointerTo('2').replace('sha256', 'sha1'),
    `${pointerTo('3')}more\n`,
    `${pointerTo('4')}${' '.repeat(2000)}`,
    `x\n${pointerTo('5')}`,
    pointerTo('6').replace('oid', 'ext-10-x y\noid'),
  ])
  await project.commit('file-0', 'no pointer any more')
  let batches = 0
  const found = await findLfsObjects(git, project.directory, {
    ...search,
    onBatch: () => batches++,
  })
  const oids = ['a', 'b', 'c', 'd', 'e'].map((digit) => [id(digit), 12])
  assert.deepEqual([...found].sort(), oids)
  assert.equal(batches, 1)
})

test('each process of a search has its limits, not those of requests', async () => {
  await using project = await projectWith([pointerTo('a')])
  const { directory } = project
  await assert.rejects(findLfsObjects(starved, directory, search), GitError)
  const limits = { memoryMaxBytes: gitLimits.gitMemoryMaxBytes }
  const found = await findLfsObjects(starved, directory, { ...search, options: { limits } })
  assert.deepEqual([...found], [[id('a'), 12]])
  const low = { limits: { memoryMaxBytes: tooLittle } }
  await assert.rejects(findLfsObjects(git, directory, { ...search, options: low }), GitError)
})

test('a search that is stopped throws the reason', async () => {
  await using project = await projectWith([pointerTo('a')])
  const stop = new AbortController()
  const stopped = { ...search, signal: stop.signal, onBatch: () => stop.abort(new Error('enough')) }
  await assert.rejects(findLfsObjects(git, project.directory, stopped), /enough/)
})
