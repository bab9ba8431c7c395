// Tags: each-store

import assert from 'node:assert/strict'
import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { git } from '../support/git.ts'
import { idDigits } from '../support/object-format.ts'
import { type OwnerServer, startOwnerServer } from '../support/owner-server.ts'
import { createRandom, type Random } from '../support/random.ts'
import { toRounds } from '../support/rounds.ts'
import type { Answer, Client } from '../support/service.ts'

const date = '2026-02-03T04:05:06-08:00'
const committer = {
  GIT_COMMITTER_NAME: 'ada',
  GIT_COMMITTER_EMAIL: 'ada@users.noreply.localhost',
  GIT_COMMITTER_DATE: date,
}
const asAda = {
  ...committer,
  GIT_AUTHOR_NAME: 'ada',
  GIT_AUTHOR_EMAIL: 'ada@users.noreply.localhost',
  GIT_AUTHOR_DATE: date,
}

let server: OwnerServer
let owner: Client

before(async () => {
  server = await startOwnerServer()
  owner = server.owner
})

after(() => server[Symbol.asyncDispose]())

type Site = Awaited<ReturnType<typeof createSite>>

/** A repository on the server, and a working tree whose branches are pushed there. */
async function createSite(name: string) {
  await server.create(name)
  const path = join(server.folder, name)
  await mkdir(path)
  const run = async (args: string[], env: Record<string, string> = {}) =>
    (await git(path, args, env)).stdout
  await run(['init', '--quiet', '--initial-branch=main'])
  await run(['remote', 'add', 'origin', owner.remote(name)])
  const site = {
    name,
    path,
    git: run,
    async write(file: string, content: string) {
      await mkdir(dirname(join(path, file)), { recursive: true })
      await writeFile(join(path, file), content)
    },
    async commit(message: string, env: Record<string, string> = {}) {
      await run(['add', '--all'])
      await run(['commit', '--quiet', '--allow-empty', '--message', message], env)
      return run(['rev-parse', 'HEAD'])
    },
    push: () => run(['push', '--quiet', '--force', 'origin', '--all']),
    merge: (fields: object, client = owner): Promise<Answer> =>
      client.post(`/repos/${name}/merges`, { base: 'main', head: 'topic', date, ...fields }),
    head: async () => (await run(['ls-remote', 'origin', 'refs/heads/main'])).split('\t')[0] ?? '',
    /** Puts main back to where it was. */
    reset: (id: string) => run(['push', '--quiet', '--force', 'origin', `${id}:refs/heads/main`]),
  }
  return site
}

const lines = (first: string, last = 'last') =>
  [first, ...Array.from({ length: 20 }, (_, number) => `line ${number}`), last, ''].join('\n')

/** Two branches that change the two ends of a file. */
async function createDiverged(name: string): Promise<Site & { base: string }> {
  const site = await createSite(name)
  await site.write('file', lines('first'))
  const base = await site.commit('Base')
  await site.git(['switch', '--quiet', '-c', 'topic'])
  await site.write('file', lines('first', 'theirs'))
  await site.commit('Change the end')
  await site.git(['switch', '--quiet', 'main'])
  await site.write('file', lines('ours'))
  await site.commit('Change the start')
  await site.push()
  return { ...site, base }
}

test('merge, squash, rebase and fast-forward have the results of git', async () => {
  const site = await createDiverged('methods')
  const before = await site.head()
  const topic = await site.git(['rev-parse', 'topic'])
  const merged = await site.merge({ method: 'merge', expectedHead: before })
  assert.equal(merged.status, 201, merged.text)
  await site.git(
    ['merge', '--quiet', '--no-ff', '-m', "Merge branch 'topic' into main", 'topic'],
    asAda,
  )
  assert.equal(merged.body.id, await site.git(['rev-parse', 'HEAD']))
  assert.equal(await site.head(), merged.body.id)
  const again = await site.merge({ method: 'merge', expectedHead: before })
  assert.deepEqual([again.status, again.body.merged, again.body.id], [200, false, merged.body.id])

  await site.reset(before)
  await site.git(['reset', '--quiet', '--hard', before])
  const squashed = await site.merge({ method: 'squash', message: 'All', head: topic.slice(0, 9) })
  assert.equal(squashed.status, 201, squashed.text)
  await site.git(['merge', '--quiet', '--squash', 'topic'], asAda)
  await site.git(['commit', '--quiet', '-m', 'All'], asAda)
  assert.equal(squashed.body.id, await site.git(['rev-parse', 'HEAD']))
  const nothing = await site.merge({ method: 'squash' })
  assert.deepEqual([nothing.status, nothing.body.merged], [200, false])

  await site.reset(before)
  await site.git(['reset', '--quiet', '--hard', before])
  const rebased = await site.merge({ method: 'rebase' })
  assert.equal(rebased.status, 201, rebased.text)
  await site.git(['rebase', '--quiet', 'main', 'topic'], committer)
  assert.equal(rebased.body.id, await site.git(['rev-parse', 'HEAD']))
  assert.deepEqual(rebased.body.commits, [rebased.body.id])

  await site.git(['push', '--quiet', 'origin', `${before}:refs/heads/old`])
  const forward = { base: 'old', head: 'main', method: 'fast-forward' }
  const apart = await site.merge({ method: 'fast-forward', head: topic })
  assert.deepEqual([apart.status, apart.body.code], [409, 'not_fast_forward'])
  const moved = await site.merge(forward)
  assert.deepEqual([moved.status, moved.body.id, moved.body.commits], [201, rebased.body.id, []])
  const { body: pushes } = await owner.get('/repos/methods/pushes?limit=1')
  assert.deepEqual([pushes[0].via, pushes[0].id], ['api', moved.body.pushId])
  const { body: undone } = await owner.post(`/repos/methods/pushes/${moved.body.pushId}/undo`)
  assert.equal(undone.refs[0].after, before)
})

/** Changes some files of the working tree at random. */
async function scramble(site: Site, { below, chance, pick }: Random): Promise<void> {
  const files = (await site.git(['ls-files', '-z'])).split('\0').filter((file) => file !== '')
  for (let times = 0; times < 2; times++) {
    const file = files[below(files.length)] ?? 'a/1'
    const at = join(site.path, file)
    const action = below(8)
    if (action === 0) await rm(at, { force: true, recursive: true })
    else if (action === 1) {
      const to = join(site.path, pick(['a', 'b', 'c/d']), `moved "${below(5)}"`)
      await mkdir(dirname(to), { recursive: true })
      await rename(at, to).catch(() => {})
    } else if (action === 2) await chmod(at, chance(0.5) ? 0o755 : 0o644).catch(() => {})
    else if (action === 3) {
      await rm(join(site.path, 'link'), { force: true })
      await symlink(pick(['a/1', 'b/2', 'nowhere']), join(site.path, 'link'))
    } else if (action === 4) {
      const id = pick(['1', '2', '3']).repeat(idDigits)
      await site.git(['update-index', '--add', '--cacheinfo', `160000,${id},module`])
      await mkdir(join(site.path, 'module'), { recursive: true })
    } else {
      const line = below(12)
      const text = Array.from({ length: 12 }, (_, number) =>
        number === line ? `changed ${below(4)}` : `line ${number} of ${file}`,
      )
      await site
        .write(pick(['a/1', 'b/2', 'c\t3', 'ä', file]), `${text.join('\n')}\n`)
        .catch(() => {})
    }
  }
}

test('random histories merge, squash and rebase as git does', exhaustive, async () => {
  const site = await createSite('random')
  const random = createRandom(7)
  let conflicts = 0
  let clean = 0
  for (let round = 0; round < toRounds(8); round++) {
    await site.git(['checkout', '--quiet', '--orphan', `root-${round}`])
    await site.git(['rm', '-r', '-f', '--quiet', '--ignore-unmatch', '.'])
    for (const file of ['a/1', 'b/2', 'c\t3', 'ä', 'e/f/g', 'h'])
      await site.write(
        file,
        Array.from({ length: 12 }, (_, n) => `line ${n} of ${file}\n`).join(''),
      )
    await site.commit('Root')
    await site.git(['branch', '--force', 'topic'])
    const grow = async (branch: string, count: number) => {
      await site.git(['checkout', '--quiet', '--force', branch])
      for (let number = 0; number < count; number++) {
        if (random.chance(0.8)) await scramble(site, random)
        const env = { GIT_AUTHOR_DATE: `2026-01-0${1 + number}T00:00:00+0${number}00` }
        await site.commit(`${branch} ${number}\n\nBody\n`, env)
      }
    }
    await grow(`root-${round}`, 3)
    await grow('topic', 4)
    await site.git(['branch', '--force', 'main', `root-${round}`])
    await site.git(['checkout', '--quiet', '--force', 'main'])
    await site.push()
    const main = await site.git(['rev-parse', 'main'])
    const topic = await site.git(['rev-parse', 'topic'])
    for (const method of ['merge', 'squash', 'rebase']) {
      await site.git([
        'checkout',
        '--quiet',
        '--force',
        '--detach',
        method === 'rebase' ? topic : main,
      ])
      const commands = {
        merge: [['merge', '--quiet', '--no-ff', '-m', 'M', topic]],
        squash: [
          ['merge', '--quiet', '--squash', topic],
          ['commit', '--quiet', '-m', 'M'],
        ],
        rebase: [['rebase', '--quiet', main]],
      }[method] as string[][]
      let expected: string | undefined
      try {
        for (const command of commands)
          await site.git(command, method === 'rebase' ? committer : asAda)
        expected = await site.git(['rev-parse', 'HEAD'])
      } catch {
        await site.git([method === 'rebase' ? 'rebase' : 'merge', '--abort']).catch(() => {})
        await site.git(['reset', '--quiet', '--hard']).catch(() => {})
      }
      const message = method === 'rebase' ? {} : { message: 'M' }
      const answer = await site.merge({ method, head: topic, expectedHead: main, ...message })
      if (expected === undefined) {
        conflicts += 1
        assert.equal(
          answer.body.code ?? answer.body.merged,
          answer.status === 200 ? false : 'merge_conflict',
          answer.text,
        )
      } else {
        clean += 1
        assert.equal(answer.body.id, expected, `${method} of round ${round}: ${answer.text}`)
        await site.reset(main)
      }
    }
  }
  assert.ok(conflicts > 0 && clean > 0, `${conflicts} conflicts, ${clean} clean`)
})

/** Makes a conflict: what the base has, and what each side does. */
async function createConflict(
  name: string,
  sides: Record<'base' | 'main' | 'topic', (site: Site) => Promise<void>>,
): Promise<Site> {
  const site = await createSite(name)
  await sides.base(site)
  await site.commit('Base')
  await site.git(['switch', '--quiet', '-c', 'topic'])
  await sides.topic(site)
  await site.commit('Theirs')
  await site.git(['switch', '--quiet', 'main'])
  await sides.main(site)
  await site.commit('Ours')
  await site.push()
  return site
}

const removed = (site: Site, file: string) => rm(join(site.path, file))

test('a conflict is 409 with the files, their kinds and the text with markers', async () => {
  const content = await createConflict('conflict-contents', {
    base: (site) => site.write('dir/file', 'one\n'),
    main: (site) => site.write('dir/file', 'ours\n'),
    topic: (site) => site.write('dir/file', 'theirs\n'),
  })
  const before = await content.head()
  for (const method of ['merge', 'squash', 'rebase']) {
    const { status, body } = await content.merge({ method })
    assert.deepEqual([status, body.code], [409, 'merge_conflict'])
    assert.equal(body.conflicts.length, 1)
    const [{ path, kinds, binary, content: text }] = body.conflicts
    assert.deepEqual([path, kinds, binary], ['dir/file', ['contents'], false])
    const theirs = method === 'rebase' ? await content.git(['rev-parse', 'topic']) : 'topic'
    assert.equal(text, `<<<<<<< main\nours\n=======\ntheirs\n>>>>>>> ${theirs}\n`)
    if (method === 'rebase') assert.equal(body.commit, theirs)
  }
  assert.equal(await content.head(), before)
  assert.equal((await owner.get('/repos/conflict-contents/pushes')).body.length, 1)

  const deleted = await createConflict('conflict-deleted', {
    base: (site) => site.write('file', lines('one')),
    main: (site) => removed(site, 'file'),
    topic: (site) => site.write('file', lines('theirs')),
  })
  const modify = (await deleted.merge({ method: 'merge' })).body.conflicts[0]
  assert.deepEqual([modify.kinds, modify.content], [['modify/delete'], lines('theirs')])

  const binary = await createConflict('conflict-binary', {
    base: (site) => site.write('file', 'a\0b'),
    main: (site) => site.write('file', 'a\0c'),
    topic: (site) => site.write('file', 'a\0d'),
  })
  const bytes = (await binary.merge({ method: 'merge' })).body.conflicts[0]
  assert.deepEqual([bytes.binary, bytes.content, bytes.truncated], [true, null, false])

  const long = await createConflict('conflict-long', {
    base: (site) => site.write('file', ''),
    main: (site) => site.write('file', 'ours\n'.repeat(20_000)),
    topic: (site) => site.write('file', 'theirs\n'.repeat(20_000)),
  })
  const cut = (await long.merge({ method: 'merge' })).body.conflicts[0]
  assert.deepEqual([cut.binary, cut.content, cut.truncated], [false, null, true])

  const renamed = await createConflict('conflict-renamed', {
    base: (site) => site.write('file', lines('one')),
    main: (site) => rename(join(site.path, 'file'), join(site.path, 'ours')),
    topic: (site) => rename(join(site.path, 'file'), join(site.path, 'the "irs"\n')),
  })
  const { conflicts } = (await renamed.merge({ method: 'merge' })).body
  assert.deepEqual(conflicts.map(({ path }: { path: string }) => path).sort(), [
    'file',
    'ours',
    'the "irs"\n',
  ])
  assert.ok(conflicts.every(({ kinds }: { kinds: string[] }) => kinds[0] === 'rename/rename'))

  const inTheWay = await createConflict('conflict-directory', {
    base: (site) => site.write('other', 'x'),
    main: (site) => site.write('name', 'a file'),
    topic: (site) => site.write('name/file', 'a directory'),
  })
  const directory = (await inTheWay.merge({ method: 'merge' })).body.conflicts
  assert.ok(directory.some(({ kinds }: { kinds: string[] }) => kinds.includes('file/directory')))

  const module = (id: string) => (site: Site) =>
    site
      .git(['update-index', '--add', '--cacheinfo', `160000,${id.repeat(idDigits)},module`])
      .then(async () => {
        await mkdir(join(site.path, 'module'), { recursive: true })
      })
  const submodule = await createConflict('conflict-module', {
    base: module('1'),
    main: module('2'),
    topic: module('3'),
  })
  const moved = (await submodule.merge({ method: 'merge' })).body.conflicts[0]
  assert.deepEqual([moved.path, moved.content, moved.binary], ['module', null, false])

  const many = await createConflict('conflict-many', {
    base: async () => {},
    main: async (site) => {
      for (let number = 0; number < 150; number++) await site.write(`${number}`, 'ours')
    },
    topic: async (site) => {
      for (let number = 0; number < 150; number++) await site.write(`${number}`, 'theirs')
    },
  })
  const all = (await many.merge({ method: 'merge' })).body
  assert.equal(all.conflicts.length, 100)
  assert.match(all.detail, /145 more/)
})

test('what cannot be merged is refused with a reason', async () => {
  const site = await createDiverged('impossible')
  await site.git(['switch', '--quiet', '--orphan', 'apart'])
  await site.write('apart', 'x')
  await site.commit('Apart')
  await site.git(['tag', 'tree', 'HEAD^{tree}'])
  await site.push()
  await site.git(['push', '--quiet', 'origin', '--tags'])
  const head = await site.head()
  const cases: [object, number, string][] = [
    [{ head: 'apart', method: 'merge' }, 422, 'histories_unrelated'],
    [{ head: 'apart', method: 'rebase' }, 422, 'histories_unrelated'],
    [{ head: 'tree', method: 'merge' }, 422, 'ref_not_found'],
    [{ head: 'none', method: 'merge' }, 422, 'ref_not_found'],
    [{ head: 'topic~1', method: 'merge' }, 422, 'ref_not_found'],
    [{ base: 'none', method: 'merge' }, 422, 'ref_not_found'],
    [{ method: 'merge', expectedHead: site.base }, 409, 'ref_moved'],
    [{ method: 'octopus' }, 400, 'invalid_request'],
    [{ method: 'rebase', message: 'x' }, 400, 'invalid_request'],
    [{ method: 'fast-forward', author: { name: 'a', email: 'a' } }, 400, 'invalid_request'],
    [{ method: 'merge', message: '\ud800' }, 400, 'invalid_request'],
  ]
  for (const [fields, status, code] of cases) {
    const answer = await site.merge(fields)
    assert.deepEqual([answer.status, answer.body.code], [status, code], answer.text)
  }
  assert.equal((await site.merge({ method: 'merge', expectedHead: site.base })).body.head, head)
  const protector = await server.service.client({
    username: 'ada',
    permissions: ['repo:read', 'repo:write', 'collaborator:write'],
  })
  await protector.post('/repos/impossible/collaborators', { username: 'eve' })
  await protector.put('/repos/impossible/protections/branches/main')
  const eve = await server.service.client({ username: 'eve' })
  for (const method of ['merge', 'squash', 'rebase']) {
    const answer = await site.merge({ method }, eve)
    assert.deepEqual([answer.status, answer.body.code], [403, 'branch_protected'])
  }
  assert.equal(await site.head(), head)
})

test('a rebase keeps authors, leaves out merges, equivalent and emptied commits, and keeps empty ones', async () => {
  const site = await createSite('rebase')
  await site.write('file', lines('first'))
  const base = await site.commit('Base')
  await site.git(['switch', '--quiet', '-c', 'topic'])
  const grace = {
    GIT_AUTHOR_NAME: 'Gräce',
    GIT_AUTHOR_EMAIL: 'g@x',
    GIT_AUTHOR_DATE: '2020-01-01T00:00:00+0530',
  }
  await site.write('file', lines('picked already'))
  await site.commit('Equivalent')
  await site.write('file', lines('picked already', 'end'))
  await site.commit('Kept\n\n\n with body\n#not a comment\n', grace)
  await site.commit('Empty from the start')
  await site.git(['switch', '--quiet', '-c', 'side', base])
  await site.write('side', 'side')
  await site.commit('Aside')
  await site.git(['switch', '--quiet', 'topic'])
  await site.git(['merge', '--quiet', '--no-ff', '-m', 'Merge side', 'side'])
  await site.write('half', 'of it')
  await site.git(
    [
      '-c',
      'i18n.commitEncoding=ISO-8859-1',
      'commit',
      '--quiet',
      '--allow-empty',
      '-m',
      'caf\u00e9',
    ],
    grace,
  )
  await site.commit('Halves')
  await site.git(['switch', '--quiet', 'main'])
  await site.write('half', 'of it')
  await site.write('more', 'than that')
  await site.commit('Makes one of the commits empty')
  await site.write('file', lines('picked already'))
  await site.commit('Equivalent, by another name')
  await site.push()
  const main = await site.git(['rev-parse', 'main'])
  await site.git(['rebase', '--quiet', 'main', 'topic'], committer)
  const expected = await site.git(['rev-parse', 'HEAD'])
  const answer = await site.merge({ method: 'rebase' })
  assert.equal(
    answer.body.id,
    expected,
    `${answer.text}\n${await site.git(['log', '--graph', '--oneline', expected])}`,
  )
  assert.equal(
    answer.body.commits.length,
    Number(await site.git(['rev-list', '--count', `${main}..${expected}`])),
  )
})
