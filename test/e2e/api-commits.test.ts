// Tags: each-store

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { newTokenString } from '#base/token-string.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { git } from '../support/git.ts'
import { assertFrugal } from '../support/memory.ts'
import { idDigits } from '../support/object-format.ts'
import { type OwnerServer, startOwnerServer } from '../support/owner-server.ts'
import { toRounds } from '../support/rounds.ts'
import { type Answer, type Client, createClient } from '../support/service.ts'

const mib = 1024 * 1024
const none = '0'.repeat(40)
const author = { name: 'Grace', email: 'grace@example.com', date: '2026-01-02T03:04:05+01:30' }
const date = '2026-02-03T04:05:06-08:00'

let server: OwnerServer
let owner: Client

before(async () => {
  server = await startOwnerServer()
  owner = server.owner
})

after(() => server[Symbol.asyncDispose]())

type Fields = Record<string, unknown> & { changes: object[] }

const commit = (name: string, fields: Fields, client = owner): Promise<Answer> =>
  client.post(`/repos/${name}/commits`, { branch: 'main', message: 'Change', ...fields })

/** Commits and returns the commit. */
async function committed(name: string, fields: Fields) {
  const answer = await commit(name, fields)
  assert.equal(answer.status, 201, answer.text)
  return answer.body
}

/** Runs git in a fresh clone. */
async function cloned(name: string) {
  const path = join(server.folder, `${name}-${Math.random().toString(36).slice(2)}`)
  await git('/', ['clone', '--quiet', owner.remote(name), path])
  return { path, git: async (...args: string[]) => (await git(path, args)).stdout }
}

test('the first commit of a repository makes its branch', async () => {
  await server.create('first')
  const made = await committed('first', {
    message: 'Begin',
    changes: [{ path: 'docs/readme.md', content: 'Hello, ä\n' }],
  })
  assert.deepEqual([made.parents, made.before, made.ref], [[], none, 'refs/heads/main'])
  const clone = await cloned('first')
  assert.equal(await clone.git('rev-parse', 'HEAD'), made.id)
  assert.equal(
    await clone.git('log', '--format=%an %ae %cn %B'),
    'ada ada@users.noreply.localhost ada Begin',
  )
  assert.equal(await clone.git('show', 'HEAD:docs/readme.md'), 'Hello, ä')
  assert.equal(await clone.git('fsck', '--strict'), '')
})

test('a commit has the id that git gives it', async () => {
  await server.create('ids')
  const begin = { author, date, message: 'Begin', allowEmpty: true }
  const first = await committed('ids', { ...begin, changes: [{ path: 'a', content: 'a\n' }] })
  const clone = await cloned('ids')
  const environment = {
    GIT_AUTHOR_NAME: author.name,
    GIT_AUTHOR_EMAIL: author.email,
    GIT_AUTHOR_DATE: author.date,
    GIT_COMMITTER_NAME: 'ada',
    GIT_COMMITTER_EMAIL: 'ada@users.noreply.localhost',
    GIT_COMMITTER_DATE: date,
  }
  await writeFile(join(clone.path, 'b'), 'b\n')
  await clone.git('mv', 'a', 'c')
  await clone.git('add', '.')
  await git(clone.path, ['commit', '--quiet', '-m', 'Änder'], environment)
  const made = await committed('ids', {
    ...{ author, date, message: 'Änder', expectedHead: first.id },
    changes: [
      { path: 'c', moveFrom: 'a' },
      { path: 'b', contentBase64: Buffer.from('b\n').toString('base64') },
    ],
  })
  assert.equal(made.id, await clone.git('rev-parse', 'HEAD'))
  assert.equal(made.author.date, author.date)
  assert.equal(made.committer.date, date)
})

const kinds = [
  ...[{ mode: '100644' }, { mode: '100755' }, { mode: '120000', content: 'some/target' }],
  { mode: '160000', content: 'a'.repeat(idDigits) },
]
const pathArbitrary = fc
  .array(fc.constantFrom('a', 'b', 'a.b', 'a-b', 'ä"\t\n:', '-x', 'A', 'a0'), {
    minLength: 1,
    maxLength: 3,
  })
  .map((names) => names.join('/'))

test('random changes make the tree that git makes', exhaustive, async () => {
  await server.create('random')
  await committed('random', { changes: [{ path: 'seed', content: 'x' }] })
  const clone = await cloned('random')
  const files = new Map([['seed', '100644']])
  let number = 0
  const change = async (path: string, kind: (typeof kinds)[number], action: number) => {
    number += 1
    const content = kind.content ?? `content ${number}\n`
    const isBlocked = [...files.keys()].some(
      (one) => one.startsWith(`${path}/`) || path.startsWith(`${one}/`),
    )
    const stage = async (mode: string, at: string) => {
      await writeFile(join(clone.path, '.git', 'content'), content)
      const id =
        mode === '160000'
          ? content
          : await clone.git('hash-object', '-w', '--', join(clone.path, '.git', 'content'))
      await clone.git('update-index', '--add', '--cacheinfo', `${mode},${id},${at}`)
      files.set(at, mode)
    }
    const existing = files.has(path)
    if (action === 0 && existing && files.size > 1) {
      files.delete(path)
      await clone.git('rm', '--quiet', '--cached', '--', `:(literal)${path}`)
      return commit('random', { changes: [{ path, delete: true }] })
    }
    const [source] = [...files.keys()]
    if (action === 1 && source && !existing && !isBlocked && !`${path}/`.startsWith(`${source}/`)) {
      const listed = await clone.git('ls-files', '--stage', '--', `:(literal)${source}`)
      const [mode = '', id = ''] = listed.split(' ')
      files.delete(source)
      files.set(path, mode)
      await clone.git('rm', '--quiet', '--cached', '--', `:(literal)${source}`)
      await clone.git('update-index', '--add', '--cacheinfo', `${mode},${id},${path}`)
      return commit('random', { changes: [{ path, moveFrom: source }] })
    }
    if (!isBlocked) await stage(kind.mode, path)
    const answer = await commit('random', { changes: [{ path, content, mode: kind.mode }] })
    if (isBlocked) assert.equal(answer.body.code, 'path_conflict')
    return isBlocked || answer.body.code === 'nothing_changed' ? undefined : answer
  }
  await fc.assert(
    fc.asyncProperty(
      pathArbitrary,
      fc.constantFrom(...kinds),
      fc.nat({ max: 3 }),
      async (path, kind, action) => {
        const answer = await change(path, kind, action)
        if (!answer) return
        assert.equal(answer.status, 201, answer.text)
        assert.equal(answer.body.tree, await clone.git('write-tree'), path)
      },
    ),
    { numRuns: toRounds(20), endOnFailure: true },
  )
  const again = await cloned('random')
  assert.match(await again.git('fsck', '--strict', '--full'), /^$/)
})

test('changes are applied together: files swap, directories move and go', async () => {
  await server.create('together')
  const files = ['x', 'y', 'dir/1', 'dir/2', 'old/3', 'keep']
  const changes = files.map((path) => ({ path, content: path }))
  await committed('together', { changes })
  await committed('together', {
    changes: [
      { path: 'x', moveFrom: 'y' },
      { path: 'y', moveFrom: 'x', mode: '100755' },
      { path: 'new/dir', moveFrom: 'dir' },
      { path: 'old', delete: true },
      { path: 'old', content: 'now a file' },
      { path: 'keep', mode: '100755' },
    ],
  })
  const clone = await cloned('together')
  const listed = await clone.git('ls-tree', '-r', '--format=%(objectmode) %(path)', 'HEAD')
  const expected = '100755 keep|100644 new/dir/1|100644 new/dir/2|100644 old|100644 x|100755 y'
  assert.equal(listed.split('\n').join('|'), expected)
  assert.equal(await clone.git('show', 'HEAD:x'), 'y')
  assert.equal(await clone.git('log', '-1', '--format=%P'), await clone.git('rev-parse', 'HEAD~1'))
})

const refused: [string, object[], string][] = [
  ['path_absent', [{ path: 'none', delete: true }], 'cannot be deleted'],
  ['path_absent', [{ path: 'b', moveFrom: 'none' }], 'cannot be moved'],
  ['path_absent', [{ path: 'none', mode: '100755' }], 'no mode to change'],
  ['path_conflict', [{ path: 'a/b', content: '' }], '"a" is a file'],
  ['path_conflict', [{ path: 'dir', content: '' }], 'it is a directory'],
  ['path_conflict', [{ path: 'a', moveFrom: 'dir/x' }], 'it exists'],
  [
    'path_conflict',
    [
      { path: 'dir/new', moveFrom: 'dir' },
      { path: 'dir', content: '' },
    ],
    'dir',
  ],
  [
    'path_conflict',
    [
      { path: 'n', content: '' },
      { path: 'n/m', content: '' },
    ],
    '"n" is a file',
  ],
  ['nothing_changed', [{ path: 'a', content: 'a' }], 'allowEmpty'],
  ['nothing_changed', [], 'allowEmpty'],
  [
    'invalid_request',
    [
      { path: 'a', content: '' },
      { path: 'a', mode: '100755' },
    ],
    'twice',
  ],
  [
    'invalid_request',
    [
      { path: 'dir', delete: true },
      { path: 'b', moveFrom: 'dir/x' },
    ],
    '/changes/0',
  ],
  ['invalid_request', [{ path: 'a' }], 'must have'],
  ['invalid_request', [{ path: 'a', delete: true, content: '' }], 'another change'],
  ['invalid_request', [{ path: 'a', content: '', contentBase64: '' }], 'with `content`'],
  ['invalid_request', [{ path: 'a', contentBase64: 'YQ' }], 'Base64'],
  ['invalid_request', [{ path: 'a', contentBase64: 'YQ==\n' }], 'Base64'],
  ['invalid_request', [{ path: 'a', contentBase64: '-_==' }], 'Base64'],
  ['invalid_request', [{ path: 'a', content: '\ud800' }], 'surrogate'],
  ['invalid_request', [{ path: 'a\udc00', content: '' }], 'surrogate'],
  ['invalid_request', [{ path: 'a\0b', content: '' }], 'NUL'],
  ['invalid_request', [{ path: '/a', content: '' }], 'empty name'],
  ['invalid_request', [{ path: 'a/', content: '' }], 'empty name'],
  ['invalid_request', [{ path: 'b//c', content: '' }], 'empty name'],
  ['invalid_request', [{ path: 'b/../c', content: '' }], '`..`'],
  ['invalid_request', [{ path: './c', content: '' }], '`.`'],
  ['invalid_request', [{ path: 'ä'.repeat(2049), content: '' }], '4096 bytes'],
  ['invalid_request', [{ path: `${'d/'.repeat(100)}x`, content: '' }], '100 levels'],
  ['invalid_request', [{ path: 's', content: 'main', mode: '160000' }], 'id of a commit'],
  ['invalid_request', [{ path: 'a', mode: '160000' }], 'takes a content'],
  ['invalid_request', [{ path: 's', content: '', mode: '040000' }], 'mode'],
  ['invalid_request', [{ path: 's', content: '', mode: '120000' }], 'a target for a symbolic link'],
  ['invalid_request', [{ path: 's', content: 'a\0b', mode: '120000' }], 'without NUL'],
  ['invalid_request', [{ path: 'empty', mode: '120000' }], 'for an empty file'],
  ...[
    '.git/config',
    '.GIT/x',
    'x/.Git',
    'git~1/x',
    '.g\u200cit/x',
    '.git /x',
    '.git::$INDEX_ALLOCATION/x',
  ].map((path): [string, object[], string] => [
    'objects_refused',
    [{ path, content: '' }],
    'hasDotgit',
  ]),
  [
    'objects_refused',
    [{ path: '.gitmodules', content: '[submodule "x"]\n\turl = --upload-pack=evil\n\tpath = x' }],
    '.gitmodules',
  ],
  ['objects_refused', [{ path: '.gitmodules', content: 'x', mode: '120000' }], 'symbolic link'],
]

test('invalid changes are refused with a reason, and nothing changes', async () => {
  await server.create('refused')
  const changes = ['a', 'dir/x', 'empty'].map((path) => ({
    path,
    content: path === 'empty' ? '' : path,
  }))
  const { id } = await committed('refused', { changes })
  for (const [code, wrong, words] of refused) {
    const answer = await commit('refused', { changes: wrong as object[] })
    assert.equal(answer.body.code, code, `${JSON.stringify(wrong)}: ${answer.text}`)
    assert.ok(answer.body.detail.includes(words), `${words}: ${answer.body.detail}`)
  }
  const fields: [string, object][] = [
    ['/message', { message: 'a\0b' }],
    ['/message', { message: '\udbff' }],
    ['/message', { message: ' \n' }],
    ['/branch', { branch: 'a..b' }],
    ['/branch', { branch: 'a b' }],
    ['/date', { date: 'yesterday' }],
    ['/date', { date: '2026-02-30' }],
    ['/date', { date: '1960-01-01T00:00:00Z' }],
    ['/author/name', { author: { name: ' <>', email: 'a@b' } }],
    ['/author/email', { author: { name: 'a', email: 'a@\nb' } }],
    ['/expectedHead', { expectedHead: 'main' }],
  ]
  for (const [pointer, field] of fields) {
    const answer = await commit('refused', { changes: [{ path: 'n', content: '' }], ...field })
    assert.equal(answer.status, 400, answer.text)
    assert.equal(answer.body.errors[0].pointer, pointer)
  }
  const { body } = await owner.get('/repos/refused/pushes')
  assert.equal(body.length, 1)
  assert.equal((await committed('refused', { changes: [], allowEmpty: true })).parents[0], id)
})

test('a branch starts where the request says, unless it exists', async () => {
  await server.create('branches')
  const changes = (content: string) => [{ path: 'a', content }]
  const first = await committed('branches', { changes: changes('1') })
  const second = await committed('branches', { changes: changes('2') })
  const lost = await commit('branches', { branch: 'topic', changes: changes('3') })
  assert.equal(lost.body.code, 'ref_not_found')
  const fields = { branch: 'topic', start: first.id.slice(0, 8), changes: changes('3') }
  const topic = await committed('branches', { ...fields, expectedHead: none })
  assert.deepEqual(topic.parents, [first.id])
  const again = await commit('branches', fields)
  assert.deepEqual([again.status, again.body.code, again.body.head], [409, 'ref_moved', topic.id])
  const odd = await commit('branches', { branch: 'odd', start: 'main~1', changes: changes('4') })
  assert.equal(odd.body.code, 'ref_not_found')
  for (const branch of ['HEAD', 'refs/heads/x', first.id]) {
    const answer = await commit('branches', { branch, changes: changes('5') })
    assert.equal(answer.body.code, 'ref_name_refused')
  }
  const under = await commit('branches', {
    branch: 'topic/x',
    start: 'main',
    changes: changes('6'),
  })
  assert.deepEqual([under.status, under.body.code], [409, 'update_refused'])
  assert.match(under.body.detail, /directory of another ref/)
  assert.equal((await owner.get('/repos/branches/pushes')).body.length, 3)
  assert.equal(second.parents[0], first.id)
})

test('a head that has moved is 409 with the present one, and a repeated request is found again', async () => {
  await server.create('repeat')
  const first = await committed('repeat', { changes: [{ path: 'a', content: '1' }] })
  const request = { expectedHead: first.id, date, changes: [{ path: 'a', content: '2' }] }
  const made = await committed('repeat', request)
  const again = await commit('repeat', request)
  assert.deepEqual([again.status, again.body.id, again.body.pushId], [200, made.id, null])
  const next = await committed('repeat', { changes: [{ path: 'a', content: '3' }] })
  assert.deepEqual((await commit('repeat', request)).body.id, made.id)
  const undated = { ...request, date: undefined }
  const moved = await commit('repeat', undated)
  assert.deepEqual([moved.status, moved.body.head], [409, next.id])
  const other = { ...request, changes: [{ path: 'a', content: 'other' }] }
  assert.equal((await commit('repeat', other)).body.code, 'ref_moved')
  const absent = { ...request, expectedHead: 'e'.repeat(40) }
  assert.equal((await commit('repeat', absent)).body.head, next.id)
})

test('a commit is a push: journal, event, webhook payload, default branch and undo', async () => {
  await server.create('pushes')
  const made = await committed('pushes', {
    branch: 'trunk',
    message: 'First line\n\nMore',
    changes: [{ path: 'a', content: 'a' }],
  })
  const { body: push } = await owner.get(`/repos/pushes/pushes/${made.pushId}`)
  assert.deepEqual([push.via, push.refs[0].after, push.undoable], ['api', made.id, true])
  assert.equal(push.actor.username, 'ada')
  const { body: events } = await owner.get('/repos/pushes')
  assert.equal(events.defaultBranch, 'trunk')
  const { body: list } = await owner.get('/events?after=0&limit=1000')
  const event = list.find(
    (one: { kind: string; data: { pushId?: string } }) =>
      one.kind === 'push' && one.data.pushId === made.pushId,
  )
  assert.deepEqual([event?.data.via, event?.data.after], ['api', made.id])
  const undone = await owner.post(`/repos/pushes/pushes/${made.pushId}/undo`)
  assert.equal(undone.status, 200, undone.text)
  assert.equal((await owner.get('/repos/pushes')).body.empty, true)
  const { body: audit } = await server.service.admin.get('/audit?action=push&limit=2')
  assert.deepEqual(
    audit.map(({ via }: { via: string }) => via),
    ['api', 'api'],
  )
})

test('rights, protections, limits of tokens and the leak guard are those of a push', async () => {
  await server.create('rules')
  const all = ['repo:read', 'repo:write', 'collaborator:write']
  const ada = await server.service.client({ username: 'ada', permissions: all })
  await committed('rules', { changes: [{ path: 'a', content: 'a' }] })
  const changes = [{ path: 'b', content: 'b' }]
  const writeOnly = await server.service.client({ username: 'ada', permissions: ['repo:write'] })
  assert.equal((await commit('rules', { changes }, writeOnly)).body.code, 'permission_missing')
  const readOnly = await server.service.client({ username: 'ada', permissions: ['repo:read'] })
  assert.equal((await commit('rules', { changes }, readOnly)).body.code, 'permission_missing')
  const stranger = await server.service.client({ username: 'eve' })
  assert.equal((await commit('rules', { changes }, stranger)).status, 404)
  await ada.post('/repos/rules/collaborators', { username: 'eve' })
  await ada.put('/repos/rules/protections/branches/main')
  const kept = await commit('rules', { changes }, stranger)
  assert.deepEqual([kept.status, kept.body.code], [403, 'branch_protected'])
  await ada.put('/repos/rules/protections/branches/gated', { requires: ['ci.yml'] })
  const gated = await commit('rules', { branch: 'gated', start: 'main', changes })
  assert.deepEqual([gated.status, gated.body.code], [403, 'run_required'])
  const { body: limited } = await server.service.admin.post('/tokens', {
    ...{ name: 'agent', username: 'ada', refs: ['refs/heads/agents/*'] },
    permissions: ['repo:read', 'repo:write'],
  })
  const agent = createClient(server.service.url, limited.token)
  assert.equal((await commit('rules', { changes }, agent)).body.code, 'token_limited')
  const own = await commit('rules', { branch: 'agents/1', start: 'main', changes }, agent)
  assert.equal(own.status, 201, own.text)
  const secret = [{ path: 'deploy.sh', content: `TOKEN=${newTokenString()}\n` }]
  const leak = await commit('rules', { changes: secret })
  assert.deepEqual([leak.status, leak.body.code], [403, 'credentials_leaked'])
  assert.match(leak.body.detail, /deploy\.sh/)
})

test('a body may be larger than others, up to a limit, and has at most 1000 changes', async () => {
  await server.create('large')
  const content = 'x'.repeat(3 * 1024 * 1024)
  const made = await committed('large', { changes: [{ path: 'large', content }] })
  const clone = await cloned('large')
  assert.equal(await clone.git('cat-file', '-s', `${made.id}:large`), String(content.length))
  const tooLarge = await commit('large', { changes: [{ path: 'x', content: content.repeat(6) }] })
  assert.equal(tooLarge.status, 413)
  const many = Array.from({ length: 100_000 }, (_, number) => ({ path: `${number}`, content: '' }))
  assert.equal((await commit('large', { changes: many })).status, 400)
  const deep = Array.from({ length: 1000 }, (_, number) => ({
    path: `${number}/${'d/'.repeat(90)}x`,
    content: '',
  }))
  const answer = await commit('large', { changes: deep })
  assert.match(answer.body.detail, /10000 directories/)
  const wide = Array.from({ length: 1000 }, (_, number) => ({
    path: `${number % 7}/${number}`,
    content: `${number}`,
  }))
  const { id } = await committed('large', { changes: wide })
  await clone.git('pull', '--quiet')
  assert.equal(await clone.git('rev-parse', 'HEAD'), id)
  assert.equal((await clone.git('ls-files')).split('\n').length, 1001)
})

test('eight bodies of 16 MiB at a time are read within a bound of memory', exhaustive, async () => {
  const content = 'x'.repeat(16 * mib - 1000)
  const writers = await Promise.all(
    Array.from({ length: 8 }, async (_, number) => {
      const username = `writer-${number}`
      const client = await server.service.client({
        username,
        permissions: ['repo:read', 'repo:write'],
      })
      const { status } = await client.post('/repos', { name: `bodies-${number}` })
      assert.equal(status, 201)
      return client
    }),
  )
  await assertFrugal(
    server.service,
    async () => {
      const changes = [{ path: 'large', content }]
      const answers = await Promise.all(
        writers.map((client, number) => commit(`bodies-${number}`, { changes }, client)),
      )
      for (const { status, text } of answers) assert.equal(status, 201, text)
    },
    // Of four at a time, each as bytes, as text, and as the content of an object.
    400 * mib,
  )
})
