// Tags: each-store

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { harmlessFaults } from '#git/process/git-config.ts'
import { until } from '../support/condition.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { type OwnerServer, startOwnerServer } from '../support/owner-server.ts'
import { logIn } from '../support/page-client.ts'

const ada = 'Ada <ada@example.com> 1700000000 +0100'
const commit = (author: string, committer = author, message = 'Text\n') =>
  `author ${author}\ncommitter ${committer}\n\n${message}`

/** Commits, without their trees, with the fault that git fsck finds in each: all that are about a commit. */
const commits: [fault: string, text: string][] = [
  ['badDate', commit('Ada <ada@example.com> <ada@example.com> 1700000000 +0100')],
  ['badDate', commit('Ada <ada@example.com> yesterday')],
  ['badDate', commit('Ada <ada@example.com> -5 +0000')],
  ['badDateOverflow', commit('Ada <ada@example.com> 99999999999999999999999 +0000')],
  ['badEmail', commit('Ada <ada@example.com 1700000000 +0100')],
  ['badName', commit('ada> <ada@example.com> 1700000000 +0100')],
  ['badTimezone', commit('Ada <ada@example.com> 1700000000 +99999999')],
  ['badTimezone', commit('Ada <ada@example.com> 1700000000 UTC')],
  ['missingEmail', commit('Ada 1700000000 +0100')],
  ['missingNameBeforeEmail', commit('<ada@example.com> 1700000000 +0100')],
  ['missingSpaceBeforeDate', commit('Ada <ada@example.com>1700000000 +0100')],
  ['missingSpaceBeforeEmail', commit('Ada<ada@example.com> 1700000000 +0100')],
  ['missingEmail', commit(ada, '')],
  ['multipleAuthors', commit(`${ada}\nauthor Bob <bob@example.com> 1 +0000`, ada)],
  ['nulInCommit', commit(ada, ada, 'Text\0more\n')],
  ['zeroPaddedDate', commit('Ada <ada@example.com> 01700000000 +0100')],
]

let server: OwnerServer
let project: Project
/** The commits above, each the parent of the next. */
let ids: string[]

before(async () => {
  server = await startOwnerServer()
  project = await createProject()
  ids = []
  const name = join(project.path, 'object')
  let parent = await project.git('rev-parse', 'HEAD')
  for (const [number, [, text]] of commits.entries()) {
    await writeFile(join(project.path, 'lines.txt'), `line ${number}\n`.repeat(number + 1))
    await project.git('add', 'lines.txt')
    const tree = await project.git('write-tree')
    await writeFile(name, `tree ${tree}\nparent ${parent}\n${text}`)
    parent = await project.git('hash-object', '-t', 'commit', '-w', '--literally', name)
    ids.push(parent)
  }
  await project.git('update-ref', 'refs/heads/odd', parent)
})

after(async () => {
  await project[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})

test('each fault of a commit is one that git finds, and none is missing', async () => {
  const found = await git(project.path, ['fsck', '--strict']).then(
    ({ stdout }) => stdout,
    ({ stderr }) => stderr,
  )
  for (const [fault] of commits) assert.match(found, new RegExp(`\\b${fault}:`))
  const ofTrees = ['zeroPaddedFilemode']
  const all = [...new Set(commits.map(([fault]) => fault))]
  assert.deepEqual([...harmlessFaults].sort(), [...all, ...ofTrees].sort())
})

test('commits with old faults are pushed, one by one and together, and imported', async () => {
  await server.create('one-by-one')
  for (const id of ids) {
    const push = ['push', '--quiet', server.owner.remote('one-by-one'), `${id}:refs/heads/main`]
    await project.git(...push)
  }
  await server.create('together')
  const refs = ['odd', 'odd~:refs/heads/other']
  await project.git('push', '--quiet', server.owner.remote('together'), ...refs)
  const fields = { source: project.path, name: 'imported' }
  const imported = await server.service.admin.post('/repos/import', fields)
  assert.equal(imported.status, 201, imported.text)
  await using folder = await temporaryFolder()
  await git(folder.path, ['clone', '--quiet', '--branch=odd', server.owner.remote('together'), '.'])
  assert.equal((await git(folder.path, ['rev-parse', 'HEAD'])).stdout, ids.at(-1))
})

test('all that reads commits reads those with old faults', async () => {
  const { owner, service } = server
  await owner.post('/repos', { name: 'read' })
  await project.git('push', '--quiet', owner.remote('read'), 'odd:main', 'odd:side')
  const pages = await logIn(service.url, owner.token)
  for (const path of [
    ...['commits', 'commits?path=lines.txt&author=Ada', 'branches?base=main', 'pushes'],
    ...['blame?path=lines.txt', `compare?base=${ids[2]}&head=main`, 'tree', 'search?q=line'],
  ]) {
    const { status, text } = await owner.get(`/repos/read/${path}`)
    assert.equal(status, 200, `${path}: ${text}`)
  }
  for (const path of [
    ...['', '/log/main', '/log/main.atom', '/log/main:lines.txt', '/blame/main:lines.txt'],
    ...['/branches', '/pushes', '/src/main:lines.txt'],
  ]) {
    const { status, text } = await pages.get(`/r/read${path}`)
    assert.equal(status, 200, `${path}: ${text}`)
  }
  for (const [number, id] of ids.entries()) {
    const { status, body, text } = await owner.get(`/repos/read/commits/${id}`)
    assert.equal(status, 200, text)
    const [fault] = commits[number] ?? []
    if (fault !== 'missingNameBeforeEmail' && fault !== 'badName')
      assert.match(body.author.name, /^Ada\b/, text)
    assert.doesNotMatch(body.author.email, /[<>]/)
    for (const end of ['', '.diff', '.patch']) {
      const answer = await until('the rate of the session allows it', async () => {
        const got = await pages.get(`/r/read/commit/${id}${end}`)
        return got.status !== 429 && got
      })
      assert.equal(answer.status, 200, `${id}${end}: ${answer.text}`)
    }
  }
})

test('commits with old faults are rebased and merged', async () => {
  const { owner } = server
  await server.create('merged')
  await project.git('push', '--quiet', owner.remote('merged'), 'HEAD:main', 'HEAD:other', 'odd')
  for (const branch of ['main', 'other']) {
    const changes = [{ path: 'new.txt', content: 'new\n' }]
    const fields = { branch, message: 'Change', changes }
    assert.equal((await owner.post('/repos/merged/commits', fields)).status, 201)
  }
  for (const [base, method] of [
    ['main', 'rebase'],
    ['other', 'merge'],
  ]) {
    const merged = await owner.post('/repos/merged/merges', { base, head: 'odd', method })
    assert.equal(merged.status, 201, merged.text)
  }
})
