// Tags: each-store
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createProject, git, type Project } from '../support/git.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let service: Service
let ada: Client
let bob: Client
let project: Project

before(async () => {
  service = await startService()
  ada = await service.client({ username: 'ada', permissions: ['everything'] })
  bob = await service.client({ username: 'bob', permissions: ['everything'] })
  project = await createProject()
  await ada.post('/repos', { name: 'site' })
  await project.git('push', '--quiet', ada.remote('site'), 'HEAD:main')
  await ada.post('/repos/site/collaborators', { username: 'bob', role: 'read' })
})

after(async () => {
  await project[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

type Given = { message: string; content?: string; options?: string[]; onto?: string }

/** Proposes a commit for `main`; its id, and what the server printed. */
async function propose(client: Client, { message, content = message, options = [], onto }: Given) {
  await project.git('checkout', '--quiet', '--force', '--detach', onto ?? 'main')
  await writeFile(join(project.path, 'gate.txt'), `${content}\n`)
  await project.git('add', '.')
  await project.git('commit', '--quiet', '-m', message)
  const commit = await project.git('rev-parse', 'HEAD')
  const given = options.flatMap((option) => ['-o', option])
  const push = ['push', ...given, client.remote('site'), 'HEAD:refs/for/main']
  const { stderr } = await git(project.path, push)
  const [, number = ''] = /Change (\d+)/.exec(stderr) ?? []
  return { commit, stderr, number: Number(number) }
}

const changeOf = (number: number) => `/repos/site/changes/${number}`

test('a reader proposes a change by a push, and a writer lands it', async () => {
  const { commit, stderr, number } = await propose(bob, { message: 'Add a gate' })
  assert.match(stderr, /remote: Change 1: Add a gate/)
  assert.match(stderr, /remote: {3}http:\/\/\S+\/r\/site\/changes\/1\s/)
  assert.match(stderr, /HEAD -> refs\/changes\/1\/1/)
  const { body } = await bob.get(changeOf(number))
  assert.deepEqual([body.commit, body.state, body.username], [commit, 'open', 'bob'])
  const { stdout: listed } = await git(project.path, ['ls-remote', ada.remote('site')])
  assert.doesNotMatch(listed, /changes/)
  await project.git('fetch', '--quiet', ada.remote('site'), 'refs/changes/1/1')
  assert.equal(await project.git('rev-parse', 'FETCH_HEAD'), commit)
  assert.equal((await ada.get('/repos/site/commits/refs%2Fchanges%2F1%2F1')).body.id, commit)
  for (const filter of ['target', 'source', 'username'])
    assert.equal((await bob.get(`/repos/site/changes?${filter}=%00`)).status, 400, filter)
  const refused = await bob.post(`${changeOf(1)}/land`, { method: 'merge' })
  assert.equal(refused.body.code, 'role_insufficient')
  const { body: landed } = await ada.post(`${changeOf(1)}/land`, { method: 'merge' })
  assert.deepEqual([landed.state, landed.closedBy], ['landed', 'ada'])
  const { body: merge } = await ada.get(`/repos/site/commits/${landed.landedCommit}`)
  assert.equal(merge.message, 'Add a gate\n\nChange: 1\n')
  const { body: again } = await ada.post(`${changeOf(1)}/land`, { method: 'merge' })
  assert.equal(again.code, 'change_closed')
  const { body: events } = await ada.get('/events?limit=1000')
  const kinds = events.map(({ kind }: { kind: string }) => kind)
  assert.deepEqual(kinds.slice(-2), ['push', 'change.landed'])
  const undone = await ada.post(`/repos/site/pushes/${landed.pushId}/undo`)
  assert.equal(undone.status, 200)
})

test('a push continues the change of its topic, its Change-Id, its change-id or its number', async () => {
  const trailer = `Change-Id: I${'1a'.repeat(20)}`
  for (const [message, options] of [
    ['Paint it', ['topic=paint']],
    [`Hang it\n\n${trailer}`, []],
  ] as const) {
    const first = await propose(bob, { message, content: '1', options: [...options] })
    const second = await propose(bob, { message, content: '2', options: [...options] })
    assert.equal(second.number, first.number, message)
    assert.match(second.stderr, new RegExp(`Change ${first.number}, version 2: `))
    const other = await propose(ada, { message, content: '3', options: [...options] })
    assert.notEqual(other.number, first.number, 'of another user')
    const { body } = await ada.get(changeOf(first.number))
    const commits = body.versions.map(({ commit }: { commit: string }) => commit)
    assert.deepEqual(commits, [first.commit, second.commit])
  }
  const plain = await propose(bob, { message: 'Oil it' })
  const next = await propose(bob, { message: 'Oil it well', options: [`topic=${plain.number}`] })
  assert.equal(next.number, plain.number)
  for (const option of ['topic=', 'topic', `topic=${'x'.repeat(101)}`])
    await assert.rejects(propose(bob, { message: 'Oil it', options: [option] }), /A topic has 1 to/)
  await assert.rejects(
    git(project.path, ['push', bob.remote('site'), `${next.commit}:refs/for/main`]),
    new RegExp(`Change ${plain.number} has the commit ${next.commit} as its version 2 already`),
  )
  const jj = async (content: string) => {
    const { tree, parent } = {
      tree: await write(content),
      parent: await project.git('rev-parse', 'main'),
    }
    const person = 'Ada <ada@example.com> 1700000000 +0000'
    const head = `tree ${tree}\nparent ${parent}\nauthor ${person}\ncommitter ${person}\n`
    await writeFile(join(project.path, '.git/commit'), `${head}change-id qpvuntsmwlqt\n\nWith jj\n`)
    const id = await project.git('hash-object', '-t', 'commit', '-w', '.git/commit')
    return (await git(project.path, ['push', bob.remote('site'), `${id}:refs/for/main`])).stderr
  }
  assert.match(await jj('one'), /Change \d+: With jj/)
  assert.match(await jj('two'), /Change \d+, version 2: With jj/)
})

/** The id of a tree with a file. */
async function write(content: string): Promise<string> {
  await writeFile(join(project.path, 'gate.txt'), content)
  await project.git('add', '.')
  return project.git('write-tree')
}

test('the refs of changes are written in no other way', async () => {
  const { commit, number } = await propose(bob, { message: 'Close it' })
  const refused = (refspecs: string[], words: RegExp, client = ada) =>
    assert.rejects(git(project.path, ['push', client.remote('site'), ...refspecs]), words)
  await refused([`${commit}:refs/changes/${number}/1`], /a version of a change/)
  await refused([`:refs/changes/${number}/1`], /refs\/changes|version of a change/)
  await refused([`${commit}:refs/svc/changes/${number}/2`], /kept for the service/)
  await refused([':refs/for/main'], /cannot be deleted|refs\/for/)
  await refused([`${commit}:refs/for/main`, `${commit}:refs/heads/x`], /updates no other ref/)
  await refused([`${commit}:refs/for/none`], /There is no branch "none"/)
  await refused(['main:refs/for/main'], /has the commit \w+ already/)
  await refused([`${commit}:refs/heads/main`], /Your role in this repository is read/, bob)
  const set = await ada.put('/repos/site/refs?ref=refs/changes/9/9', { target: commit })
  assert.equal(set.body.code, 'ref_name_refused')
  await project.git('checkout', '--quiet', '--orphan', `alone-${number}`)
  await project.git('commit', '--quiet', '-m', 'Alone')
  await refused(['HEAD:refs/for/main'], /no commit in common/)
  const check = async (client: Client, ...refs: object[]) => {
    const { body } = await client.post('/repos/site/check', { action: 'push', refs })
    return body.refs.map(({ code }: { code: string | null }) => code)
  }
  const forMain = { ref: 'refs/for/main' }
  const asked = [forMain, { ref: 'refs/for/none' }, { ...forMain, change: 'delete' }, { ref: 'x' }]
  const answers = [null, 'ref_not_found', 'ref_name_refused']
  assert.deepEqual(await check(bob, ...asked), [...answers, 'role_insufficient'])
  assert.deepEqual(await check(ada, ...asked), [...answers, null])
  const limited = await service.client({
    username: 'ada',
    permissions: ['repo:write', 'repo:read'],
    refs: ['refs/for/*'],
  })
  await refused([`${commit}:refs/heads/y`], /This token may not change/, limited)
  assert.match(
    (await propose(limited, { message: 'By an agent' })).stderr,
    /Change \d+: By an agent/,
  )
})

test('a change of a branch follows its pushes, and lands when it is merged', async () => {
  const push = async (message: string) => {
    await project.git('checkout', '--quiet', '--force', '-B', 'topic', 'main')
    await project.git('commit', '--quiet', '--allow-empty', '-m', `${message}\n\nWith care.`)
    await project.git('push', '--quiet', '--force', ada.remote('site'), 'topic')
    return project.git('rev-parse', 'HEAD')
  }
  const first = await push('Follow')
  const sent = { source: 'topic', target: 'main' }
  const { status, body } = await ada.post('/repos/site/changes', sent)
  assert.deepEqual([status, body.title, body.description], [201, 'Follow', 'With care.'])
  const { body: again } = await ada.post('/repos/site/changes', sent)
  assert.equal(again.code, 'nothing_changed')
  const second = await push('Follow on')
  const versionsOf = async () => {
    const { body: change } = await bob.get(changeOf(body.number))
    return change.versions.map(({ commit }: { commit: string }) => commit)
  }
  assert.deepEqual(await versionsOf(), [first, second])
  await project.git('push', '--quiet', ada.remote('site'), 'topic:main')
  assert.equal((await bob.get(changeOf(body.number))).body.state, 'landed')
})

test('comments follow their lines, and threads are resolved', async () => {
  const lines = (...all: string[]) => all.join('\n')
  const topic = ['topic=threads']
  const first = await propose(bob, {
    message: 'Write',
    content: lines('a', 'b', 'c'),
    options: topic,
  })
  const path = `${changeOf(first.number)}/comments`
  const on = { path: 'gate.txt', line: 2, version: 1 }
  const { status, body: comment } = await ada.post(path, { text: 'Why *b*?', ...on })
  assert.deepEqual([status, comment.currentLine, comment.side], [201, 2, 'new'])
  await ada.post(path, { text: 'Also c.', ...on, line: 3 })
  await propose(bob, { message: 'Write', content: lines('x', 'a', 'b', 'd'), options: topic })
  const { body: reply } = await bob.post(path, { text: 'So.', replyTo: comment.id })
  assert.deepEqual([reply.threadId, reply.line, reply.currentLine], [comment.id, 2, 3])
  const positions = async () =>
    (await bob.get(path)).body.map(({ line, currentLine, resolvedBy }: Record<string, unknown>) => [
      ...[line, currentLine, resolvedBy],
    ])
  const before = [
    ...[
      [2, 3, null],
      [3, null, null],
    ],
    [2, 3, null],
  ]
  assert.deepEqual(await positions(), before)
  await bob.patch(`${path}/${reply.id}`, { resolved: true })
  assert.deepEqual(await positions(), [
    [2, 3, 'bob'],
    [3, null, null],
    [2, 3, 'bob'],
  ])
  const edited = await ada.patch(`${path}/${reply.id}`, { text: 'No.' })
  assert.equal(edited.body.code, 'role_insufficient')
  const { body: change } = await bob.get(changeOf(first.number))
  assert.deepEqual([change.comments, change.unresolvedThreads], [3, 1])
  const wrong = [{ path: 'none' }, { path: '../x' }, { line: 1 }, { version: 9 }, { text: '' }]
  const far = [{ ...on, line: 99 }, { ...on, line: 2 ** 53 }, { text: 'a\u0000' }]
  for (const one of [...wrong, ...far]) {
    const refused = await ada.post(path, { text: 'x', ...one })
    assert.ok([400, 422].includes(refused.status), JSON.stringify([one, refused.body]))
  }
  const { body: page } = await ada.get(`${path}?limit=2`)
  assert.equal(page.length, 2)
})

test('a verdict counts for the same patches, of others who may push', async () => {
  const carol = await service.client({ username: 'carol', permissions: ['everything'] })
  await ada.post('/repos/site/collaborators', { username: 'carol', role: 'write' })
  const topic = ['topic=verdicts']
  const { number } = await propose(bob, { message: 'Judge', content: '1', options: topic })
  const judge = (client: Client, verdict: string, version: number) =>
    client.put(`${changeOf(number)}/verdict`, { verdict, version })
  const counted = async () => {
    const { body } = await ada.get(changeOf(number))
    return body.verdicts.map(({ username, counts }: Record<string, unknown>) => [username, counts])
  }
  // What lacks a verdict on its last version waits for those who may push, and for the one who proposed it.
  const waitsFor = async (client: Client) => {
    const numbers = async (path: string) =>
      (await client.get(path)).body.map((one: { number: number }) => one.number).includes(number)
    const [all, here] = [await numbers('/changes?limit=100'), await numbers(`${list}?waiting=true`)]
    assert.equal(all, here)
    return all
  }
  const list = '/repos/site/changes'
  const dave = await service.client({ username: 'dave', permissions: ['everything'] })
  await ada.post('/repos/site/collaborators', { username: 'dave', role: 'read' })
  const waiting = () => Promise.all([ada, bob, carol, dave].map(waitsFor))
  assert.deepEqual(await waiting(), [true, true, true, false])
  assert.equal((await ada.get('/changes?limit=1')).body[0].repository, 'site')
  assert.deepEqual((await service.admin.get('/changes')).body, [])
  assert.equal((await judge(bob, 'approve', 1)).body.code, 'verdict_refused')
  assert.equal((await judge(carol, 'approve', 2)).body.code, 'version_outdated')
  await judge(carol, 'approve', 1)
  assert.deepEqual(await waiting(), [true, true, false, false])
  assert.deepEqual(await counted(), [['carol', true]])
  // The branch moves on, and the change is rebased.
  const elsewhere = [{ path: 'other.txt', content: 'x' }]
  await ada.post('/repos/site/commits', { branch: 'main', message: 'x', changes: elsewhere })
  await project.git('fetch', '--quiet', ada.remote('site'), 'main')
  await project.git('checkout', '--quiet', '--force', '-B', 'main', 'FETCH_HEAD')
  await propose(bob, { message: 'Judge', content: '1', options: topic })
  assert.deepEqual(await counted(), [['carol', true]])
  const between = async (from: number, to: number) =>
    (await bob.get(`${changeOf(number)}/diff?from=${from}&to=${to}`)).body
  const { isSame, commits } = await between(1, 2)
  assert.deepEqual([isSame, commits[0].status, commits[0].diff], [true, 'same', ''])
  assert.equal((await bob.get(`${changeOf(number)}/diff?from=1&to=9`)).status, 400)
  await ada.post('/repos/site/collaborators', { username: 'carol', role: 'read' })
  assert.deepEqual(await counted(), [['carol', false]])
  await ada.post('/repos/site/collaborators', { username: 'carol', role: 'write' })
  const { commit } = await propose(bob, { message: 'Judge', content: '2', options: topic })
  const edited = await between(1, 3)
  assert.deepEqual([edited.isSame, edited.commits.length, edited.isCut], [false, 1, false])
  assert.deepEqual([edited.commits[0].status, edited.commits[0].to], ['changed', commit])
  assert.match(edited.commits[0].diff, /^-\+1\n\+\+2$/m)
  assert.deepEqual(await counted(), [['carol', false]])
  await judge(carol, 'none', 3)
  assert.deepEqual(await counted(), [])
})

test('a branch with approvals changes by landing alone, when all who must have approved', async () => {
  const carol = await service.client({ username: 'carol', permissions: ['everything'] })
  const dan = await service.client({ username: 'dan', permissions: ['everything'] })
  for (const username of ['carol', 'dan'])
    await ada.post('/repos/site/collaborators', { username, role: 'write' })
  const protection = '/repos/site/protections/branches/main'
  const owners = [{ path: 'CODEOWNERS', content: '* @ada\n/gate.txt @dan\n' }]
  await ada.post('/repos/site/commits', { branch: 'main', message: 'Own', changes: owners })
  await ada.put(protection, { approvals: 1, codeOwners: true })
  await project.git('fetch', '--quiet', ada.remote('site'), 'main')
  await project.git('checkout', '--quiet', '--force', '-B', 'main', 'FETCH_HEAD')
  const topic = ['topic=approvals']
  const { number, commit } = await propose(bob, { message: 'Review', options: topic })
  const direct = git(project.path, ['push', ada.remote('site'), `${commit}:main`])
  await assert.rejects(direct, /only changes land on it/)
  const land = async (client: Client) => {
    const { status, body } = await client.post(`${changeOf(number)}/land`, { method: 'rebase' })
    const { body: shown } = await client.get(changeOf(number))
    // What is said to be missing is what refuses it.
    if (status !== 200) assert.equal(shown.missing[0]?.detail, body.detail)
    return status === 200 ? 'landed' : `${body.code}: ${body.detail}`
  }
  const judge = (client: Client, verdict: string, version: number) =>
    client.put(`${changeOf(number)}/verdict`, { verdict, version })
  assert.match(
    await land(carol),
    /^approval_required: .*needs the approval of a user.*has 0\. By CODEOWNERS/,
  )
  await judge(carol, 'approve', 1)
  assert.match(await land(carol), /^approval_required: .*CODEOWNERS.* dan for gate\.txt/)
  await judge(dan, 'approve', 1)
  await judge(carol, 'request-changes', 1)
  assert.match(await land(ada), /^approval_required: .*carol requests changes/)
  await judge(carol, 'none', 1)
  await propose(bob, { message: 'Review', content: 'again', options: topic })
  assert.match(await land(carol), /^approval_required: .*needs the approval/)
  await judge(dan, 'approve', 2)
  await ada.post('/repos/site/collaborators', { username: 'dan', role: 'read' })
  assert.match(await land(carol), /^approval_required: /)
  await ada.post('/repos/site/collaborators', { username: 'dan', role: 'write' })
  assert.match(await land(bob), /^role_insufficient: /)
  assert.equal(await land(carol), 'landed')
  const { pushId } = (await ada.get(changeOf(number))).body
  const undo = (client: Client) => client.post(`/repos/site/pushes/${pushId}/undo`)
  assert.equal((await undo(carol)).body.code, 'branch_protected')
  assert.equal((await undo(ada)).status, 200)
  await ada.delete(protection)
})

test('a change says which rules and files it lacks, and how it can land', async () => {
  const of = async (client: Client) => {
    const { body } = await client.get(changeOf(number))
    const codes = body.missing.map(({ code }: { code: string }) => code)
    return { codes, details: JSON.stringify(body.missing), methods: body.methods }
  }
  const { number } = await propose(bob, { message: 'Clash', content: 'one', onto: 'main' })
  const protection = '/repos/site/protections/branches/main'
  await ada.put(protection, { approvals: 1, requires: [{ status: 'ci/x' }] })
  const both = await of(ada)
  assert.deepEqual([both.codes[0], both.methods], ['approval_required', ['fast-forward']])
  assert.match(both.details, /needs the approval of .*ci\/x/)
  const changes = [{ path: 'gate.txt', content: 'two\n' }]
  await ada.delete(protection)
  assert.deepEqual((await of(ada)).methods, ['merge', 'squash', 'rebase', 'fast-forward'])
  await ada.post('/repos/site/commits', { branch: 'main', message: 'Theirs', changes })
  const conflict = await of(ada)
  assert.deepEqual([conflict.codes, conflict.methods.length], [['merge_conflict'], 3])
  assert.match(conflict.details, /conflict with its branch: \\"gate\.txt\\"/)
  await ada.put(protection, { requires: [{ status: 'ci/x' }] })
  const behind = await of(ada)
  assert.deepEqual(behind.codes, ['status_required', 'not_fast_forward'])
  assert.deepEqual(behind.methods, [])
  await ada.delete(protection)
  await project.git('fetch', '--quiet', ada.remote('site'), 'main')
  await project.git('checkout', '--quiet', '--force', '-B', 'main', 'FETCH_HEAD')
})

test('a verdict is of others than those who made the version, and of what it was given for', async () => {
  const carol = await service.client({ username: 'carol', permissions: ['everything'] })
  await ada.post('/repos/site/collaborators', { username: 'carol', role: 'write' })
  const fetchMain = async () => {
    await project.git('fetch', '--quiet', ada.remote('site'), 'main')
    await project.git('checkout', '--quiet', '--force', '-B', 'main', 'FETCH_HEAD')
  }
  const save = async (file: string, content: string, message: string) => {
    await writeFile(join(project.path, file), content)
    await project.git('add', '.')
    await project.git('commit', '--quiet', '-m', message)
  }
  const countsOf = async (number: number) =>
    (await ada.get(changeOf(number))).body.verdicts[0]?.counts
  const approve = (client: Client, number: number, version: number) =>
    client.put(`${changeOf(number)}/verdict`, { verdict: 'approve', version })
  // A branch of another user: its pusher makes the version, also while the change is closed.
  await fetchMain()
  await project.git('checkout', '--quiet', '-B', 'made')
  await save('made.txt', 'made\n', 'Made by Carol')
  await project.git('push', '--quiet', carol.remote('site'), 'made')
  const { body: made } = await bob.post('/repos/site/changes', { source: 'made', target: 'main' })
  await approve(carol, made.number, 1)
  assert.equal(await countsOf(made.number), false)
  await ada.patch(changeOf(made.number), { state: 'abandoned' })
  await save('made.txt', 'more\n', 'More by Carol')
  await project.git('push', '--quiet', carol.remote('site'), 'made')
  await ada.patch(changeOf(made.number), { state: 'open' })
  await approve(carol, made.number, 2)
  assert.equal(await countsOf(made.number), false)
  // A branch that is reset to its target has not landed.
  const made2 = await project.git('rev-parse', 'made')
  await project.git('push', '--quiet', '--force', carol.remote('site'), 'main:made')
  assert.equal((await ada.get(changeOf(made.number))).body.state, 'open')
  await project.git('push', '--quiet', '--force', carol.remote('site'), `${made2}:made`)
  // The same patch elsewhere in the same file is another change.
  await fetchMain()
  const block = (at: number) =>
    Array.from({ length: 90 }, (_, index) => (index === at ? 'new' : 'old')).join('\n')
  await save('blocks.txt', block(-1), 'Blocks')
  await project.git('push', '--quiet', ada.remote('site'), 'main')
  const moved = async (at: number) => {
    await project.git('checkout', '--quiet', '--force', '--detach', 'main')
    await save('blocks.txt', block(at), 'Change a block')
    const push = ['push', '-o', 'topic=blocks', bob.remote('site'), 'HEAD:refs/for/main']
    return Number(/Change (\d+)/.exec((await git(project.path, push)).stderr)?.[1])
  }
  const number = await moved(30)
  const limited = await service.client({
    ...{ username: 'carol', permissions: ['repo:read', 'change:write'] },
    refs: ['refs/for/*'],
  })
  assert.equal((await approve(limited, number, 1)).body.code, 'token_limited')
  await approve(carol, number, 1)
  assert.equal(await countsOf(number), true)
  assert.equal(await moved(60), number)
  assert.equal(await countsOf(number), false)
  // A rebase leaves out merges, with what these changed.
  await project.git('checkout', '--quiet', '--force', '--detach', 'main')
  await save('side.txt', 'side\n', 'Side')
  const side = await project.git('rev-parse', 'HEAD')
  await project.git('checkout', '--quiet', '--force', '--detach', 'main')
  await save('own.txt', 'own\n', 'Own')
  await project.git('merge', '--quiet', '--no-ff', '-m', 'Merge', side)
  const push = ['push', bob.remote('site'), 'HEAD:refs/for/main']
  const merged = Number(/Change (\d+)/.exec((await git(project.path, push)).stderr)?.[1])
  const refused = await ada.post(`${changeOf(merged)}/land`, { method: 'rebase' })
  assert.equal(refused.body.code, 'update_refused')
  assert.equal((await ada.post(`${changeOf(merged)}/land`, { method: 'merge' })).status, 200)
})
