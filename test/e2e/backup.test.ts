import assert from 'node:assert/strict'
import {
  cp,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { holdLock } from '#base/lock-file.ts'
import { createBackupOriginal } from '../support/backup-site.ts'
import {
  assertAgrees,
  assertRefused,
  assertWhole,
  contentOf,
  mustRun,
  refsOf,
} from '../support/backups.ts'
import { runSvc } from '../support/command.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { git, spawnGit } from '../support/git.ts'
import { startInProcess } from '../support/in-process.ts'
import { without } from '../support/programs.ts'
import { toRounds } from '../support/rounds.ts'
import { startService } from '../support/service.ts'
import { withSsh } from '../support/test-settings.ts'

let original: Awaited<ReturnType<typeof createBackupOriginal>>

before(async () => {
  original = await createBackupOriginal()
})

after(() => original[Symbol.asyncDispose]())

test('a backup of a running server can be restored', async () => {
  await using site = await original.start()
  const { service } = site
  const client = await service.client({ username: 'grace' })
  const made = await site.backUp()
  assert.deepEqual([made.repositories, made.lost], [3, []])
  const [before, repositories] = [await site.refs(), (await service.admin.get('/repos')).body]
  await assertWhole(site.backup)
  await site.restored(async (again) => {
    await assertAgrees(again)
    assert.deepEqual(await refsOf(again), before)
    const { body } = await again.admin.get('/repos')
    const withoutPath = ({ path: _, ...rest }: { path: string }) => rest
    assert.deepEqual(body.map(withoutPath), repositories.map(withoutPath))
    assert.equal(body[0].protectedBranches[0], 'main')
    // Old tokens work, and what they may do is what they might.
    const headers = { authorization: `Bearer ${client.token}` }
    const seen = await fetch(`${again.url}/repos`, { headers })
    assert.deepEqual(
      ((await seen.json()) as { name: string }[]).map(({ name }) => name),
      ['site'],
    )
    await site.project.commit('more')
    await site.project.git('push', '--quiet', again.admin.remote('site'), 'HEAD:main')
  })
})

test('a backup has deleted repositories, and restores them as deleted', exhaustive, async () => {
  await using site = await original.start()
  const { admin } = site.service
  const [{ stdout: refs }, { body }] = await Promise.all([
    git('/', ['ls-remote', admin.remote('site')]),
    admin.get('/repos/site'),
  ])
  await admin.delete('/repos/site')
  await admin.post('/repos', { name: 'site' })
  const { body: deleted } = await admin.get('/deleted-repos')
  assert.equal((await site.backUp()).repositories, 4)
  await assertWhole(site.backup)
  await site.restored(async (again) => {
    assert.deepEqual((await again.admin.get('/deleted-repos')).body, deleted)
    assert.deepEqual(await readdir(join(again.dataDir, 'deleted')), [`${body.id}.git`])
    const path = `/deleted-repos/${body.id}/restore`
    const restored = await again.admin.post(path, { name: 'again' })
    assert.deepEqual(restored.body.protectedBranches, ['main'])
    const { stdout } = await git('/', ['ls-remote', again.admin.remote('again')])
    assert.equal(stdout, refs)
    await assertAgrees(again)
  })
  // What was purged is in no later backup.
  assert.equal((await admin.delete(`/deleted-repos/${body.id}`)).status, 204)
  assert.equal((await site.backUp()).repositories, 3)
  await assertWhole(site.backup)
})

test('a stopped service can be backed up, too', async () => {
  await using site = await original.copy()
  const before = await site.refs()
  await site.backUp()
  await site.restored(async (again) => assert.deepEqual(await refsOf(again), before))
})

test('an incremental backup copies only new data, and removes obsolete data', async () => {
  await using site = await original.start({ SVC_DELETED_RETENTION_DAYS: '0' })
  const first = await site.backUp()
  assert.equal(first.filesKept, 0)
  await site.push('site')
  await site.service.admin.delete('/repos/page')
  const before = await contentOf(site.backup)
  const second = await site.backUp()
  const after = await contentOf(site.backup)
  const added = [...after.keys()].filter((path) => !before.has(path))
  assert.deepEqual(added.filter((path) => path.startsWith('repositories/')).length, 2)
  assert.equal(second.filesCopied, added.length)
  const gone = [...before.keys()].filter((path) => !after.has(path))
  assert.equal(gone.filter((path) => path.startsWith('repositories/')).length, 2)
  await assertWhole(site.backup)
  for (const path of before.keys()) {
    if (path !== 'manifest.json' && after.has(path)) assert.equal(after.get(path), before.get(path))
  }
  // An idle server still records which pushes it has counted.
  await site.service.end('SIGTERM')
  const last = await site.backUp()
  const idle = await site.backUp()
  assert.deepEqual([idle.filesCopied, idle.filesKept], [0, last.filesCopied + last.filesKept])
})

test('a changed or truncated copy is replaced; --recheck also finds changes that keep size and time', async () => {
  await using site = await original.copy()
  await site.backUp()
  const whole = await contentOf(site.backup)
  const packs = [...whole.keys()].filter((path) => path.endsWith('.pack'))
  const [cut = '', changed = ''] = packs.map((path) => join(site.backup, path))
  await writeFile(cut, (await readFile(cut)).subarray(0, 50))
  await flip(changed)
  assert.equal((await site.backUp()).filesCopied, 2)
  await assertWhole(site.backup)

  const { mtime } = await stat(changed)
  await flip(changed, mtime)
  assert.equal((await site.backUp()).filesCopied, 0)
  assert.equal((await site.backUp('--recheck')).filesCopied, 1)
  await assertWhole(site.backup)
})

test('keys are included only on request, and restored if included', exhaustive, async () => {
  await using site = await original.start(withSsh)
  const keys = ['encryption.key', 'ssh_host_ed25519_key', 'ssh_host_ed25519_key.pub']
  const said = await mustRun(['backup', site.backup], site.env)
  assert.match(said, /The backup contains no keys/)
  const secret = (await readFile(join(site.dataDir, 'encryption.key'), 'utf8')).trim()
  for (const path of (await contentOf(site.backup)).keys()) {
    assert.doesNotMatch(path, /key/)
    assert.ok(!(await readFile(join(site.backup, path))).includes(secret), path)
  }
  const bare = join(site.folder, 'bare')
  const result = await mustRun(['restore', site.backup], { SVC_DATA_DIR: bare })
  assert.match(result, /Copy your encryption.key to .*\/bare with mode 0600 before you start/)
  assert.deepEqual(
    (await readdir(bare)).filter((name) => keys.includes(name)),
    [],
  )
  {
    await using _started = await startService({ dataDir: bare })
    assert.ok(!(await readdir(bare)).includes('encryption.key'), 'a start makes no second key')
  }

  await site.backUp('--with-keys')
  await assertWhole(site.backup)
  const full = join(site.folder, 'full')
  const silent = await mustRun(['restore', site.backup], { SVC_DATA_DIR: full })
  assert.doesNotMatch(silent, /Put/)
  for (const name of keys) {
    const path = join(full, name)
    assert.deepEqual(await readFile(path), await readFile(join(site.dataDir, name)))
    assert.equal((await stat(path)).mode & 0o777, 0o600)
  }
  await site.backUp()
  assert.doesNotMatch([...(await contentOf(site.backup)).keys()].join(), /key/)
})

test('a backup is readable only by its owner', async () => {
  await using site = await original.copy()
  await site.backUp('--with-keys')
  for (const entry of await readdir(site.backup, { recursive: true, withFileTypes: true })) {
    const { mode } = await stat(join(entry.parentPath, entry.name))
    if (entry.name.startsWith('svc-backup.lock')) continue
    assert.equal(mode & 0o077, 0, entry.name)
  }
  assert.equal((await stat(site.backup)).mode & 0o777, 0o700)
})

test('an unsuitable folder for a backup is rejected, and nothing is written there', async () => {
  await using site = await original.copy()
  await using other = await startInProcess()
  const { dataDir } = site
  const papers = join(site.folder, 'papers')
  await mkdir(papers)
  await writeFile(join(papers, 'thesis.txt'), 'Chapter one')
  const link = join(site.folder, 'link')
  await symlink(dataDir, link)
  const backupOfOther = join(site.folder, 'other')
  await mustRun(['backup', backupOfOther], { SVC_DATA_DIR: other.dataDir })
  const refusals = [
    [join(dataDir, 'backup'), /contain one another/],
    [join(link, 'backup'), /contain one another/],
    [dataDir, /contain one another/],
    [site.folder, /contain one another/],
    [papers, /is not empty and holds no backup of svc/],
    [join(papers, 'thesis.txt'), /cannot be used for backups/],
    [backupOfOther, /holds a backup of another service/],
  ] as const
  const before = await contentOf(papers)
  const theirs = await contentOf(backupOfOther)
  for (const [folder, sentence] of refusals) {
    assertRefused(await runSvc(['backup', folder], site.env), sentence)
  }
  assert.deepEqual(await contentOf(papers), before)
  assert.deepEqual(await contentOf(backupOfOther), theirs)
  assert.ok(!(await readdir(dataDir)).includes('backup'))
})

test('only one backup runs per data directory and per folder', exhaustive, async () => {
  await using site = await original.copy()
  await site.backUp()
  {
    using lock = await holdLock(join(site.backup, 'svc-backup.lock'))
    assert.ok(lock)
    for (const args of [['backup'], ['backup', 'verify'], ['restore']]) {
      const env = args[0] === 'restore' ? { SVC_DATA_DIR: join(site.folder, 'new') } : site.env
      assertRefused(await runSvc([...args, site.backup], env), /Another svc command is using/)
    }
  }
  using lock = await holdLock(join(site.dataDir, 'backup.lock'))
  assert.ok(lock)
  assertRefused(await runSvc(['backup', site.backup], site.env), /Another backup of .* is running/)
})

test(
  'repositories deleted during a backup stay in the trash until it has ended',
  exhaustive,
  async () => {
    await using site = await original.start({ SVC_DELETED_RETENTION_DAYS: '0' })
    const { admin, dataDir } = site.service
    const trash = () => readdir(join(dataDir, 'trash'))
    {
      using lock = await holdLock(join(dataDir, 'backup.lock'))
      assert.ok(lock)
      const { id } = (await admin.get('/repos/page')).body
      assert.equal((await admin.delete('/repos/page')).status, 204)
      assert.equal((await admin.get('/repos/page')).status, 404)
      assert.deepEqual(await trash(), [`${id}.git`])
      // Nor does a server that starts meanwhile remove it.
      await site.service.end('SIGKILL')
      await using again = await startService({ dataDir })
      assert.deepEqual(await trash(), [`${id}.git`])
      await again.end('SIGTERM')
    }
    await using _again = await startService({ dataDir })
    assert.deepEqual(await trash(), [])
  },
)

test('a backup empties the trash that it has held', exhaustive, async () => {
  await using site = await original.copy()
  const grave = join(site.dataDir, 'trash', '01m7zx25gmg1dnz0ar7a8fmc2q.git')
  await mkdir(grave)
  await site.backUp()
  await assert.rejects(stat(grave), { code: 'ENOENT' })
})

test(
  'packs that were replaced by loose objects are removed, and loose objects copied',
  exhaustive,
  async () => {
    await using site = await original.start()
    for (let times = 0; times < 3; times++) await site.push('site')
    await site.backUp()
    const path = site.pathOf('site')
    const at = ['-c', 'safe.directory=*', '--git-dir', path]
    await git('/', [...at, 'repack', '-a', '-d', '--write-bitmap-index'])
    const packs = (await readdir(join(path, 'objects', 'pack'))).filter((name) =>
      /\.pack$/.test(name),
    )
    const [pack = ''] = packs
    await cp(join(path, 'objects', 'pack', pack), join(site.folder, 'all.pack'))
    await rm(join(path, 'objects', 'pack'), { recursive: true })
    await mkdir(join(path, 'objects', 'pack'))
    const unpack = spawnGit('/', [...at, 'unpack-objects', '-q'])
    unpack.stdin.end(await readFile(join(site.folder, 'all.pack')))
    await new Promise((resolve) => unpack.on('close', resolve))
    const before = await site.refs()
    await site.backUp()
    await assertWhole(site.backup)
    const names = [...(await contentOf(site.backup)).keys()]
    assert.ok(names.some((name) => /^repositories\/\w+\/[0-9a-f]{2}\/[0-9a-f]{38}$/.test(name)))
    assert.ok(!names.some((name) => name.includes(pack)))
    await site.restored(async (again) => assert.deepEqual(await refsOf(again), before))
  },
)

test('packs may be replaced during the copy', exhaustive, async () => {
  await using site = await original.start()
  const path = site.pathOf('site')
  let isOver = false
  const repacking = (async () => {
    for (let times = 0; !isOver; times++) {
      await site.push('site')
      const repack = times % 3 === 2 ? ['repack', '-a', '-d'] : ['repack', '-d', '--geometric=2']
      await git('/', ['-c', 'safe.directory=*', '--git-dir', path, ...repack])
    }
  })()
  repacking.catch(() => {}) // Awaited below.
  for (let times = 0; times < toRounds(2); times++) {
    await site.backUp()
    await assertWhole(site.backup)
  }
  isOver = true
  await repacking
})

test(
  'symbolic refs, other branches as HEAD and names that are not UTF-8 are restored',
  exhaustive,
  async () => {
    await using site = await original.copy()
    const path = site.pathOf('site')
    const at = ['-c', 'safe.directory=*', '--git-dir', path]
    await git('/', [...at, 'symbolic-ref', 'refs/heads/alias', 'refs/heads/main'])
    await git('/', [...at, 'symbolic-ref', 'HEAD', 'refs/heads/topic/a'])
    const tip = await site.project.git('rev-parse', 'main')
    const odd = Buffer.concat([Buffer.from(`${path}/refs/heads/caf`), Buffer.from([0xe9])])
    await writeFile(odd, `${tip}\n`)
    await git('/', [...at, 'update-ref', 'refs/heads/h\u00e9l\u00e8ne/\u{1f600}', tip])
    await site.backUp()
    await assertWhole(site.backup)
    const list = async (directory: string) => {
      const format = '--format=%(refname) %(objectname) %(symref)'
      const refs = ['--git-dir', directory, 'for-each-ref', format]
      const head = ['--git-dir', directory, 'symbolic-ref', 'HEAD']
      return [(await git('/', refs)).stdout, (await git('/', head)).stdout]
    }
    const before = await list(path)
    await site.restored(async (again) => {
      assert.deepEqual(await list((await again.admin.get('/repos/site')).body.path), before)
      const raw = await readFile(
        join((await again.admin.get('/repos/site')).body.path, 'packed-refs'),
      )
      assert.ok(raw.includes(Buffer.from([0x63, 0x61, 0x66, 0xe9, 0x0a])))
    })
  },
)

test('a push interrupted by a kill is finalized after a restore', exhaustive, async () => {
  await using site = await original.copy()
  const { dataDir } = site
  const id = site.ids.site
  const tip = await site.project.git('rev-parse', 'main')
  const none = '0'.repeat(40)
  {
    using database = new DatabaseSync(join(dataDir, 'svc.db'), { timeout: 5000 })
    const insert = database.prepare(
      `insert into pushes (id, repository_id, actor_id, actor_username, updates, judged_at)
       values (?, ?, 'nobody', 'nobody', ?, 1)`,
    )
    const updates = [
      { ref: 'refs/heads/moved', before: none, after: tip },
      { ref: 'refs/heads/never', before: none, after: tip },
    ]
    insert.run('push-0', id, JSON.stringify(updates))
  }
  await git('/', ['--git-dir', site.pathOf('site'), 'update-ref', 'refs/heads/moved', tip])
  await site.backUp()
  await site.restored(assertAgrees)
})

test(
  'a repository with lost files does not prevent the backup of the others',
  exhaustive,
  async () => {
    await using site = await original.copy()
    const path = site.pathOf('page')
    await rm(path, { recursive: true })
    const { code, out, err } = await runSvc(['backup', site.backup], site.env)
    assert.equal(code, 0)
    assert.match(err, /the files of the repository page were lost before the backup/)
    assert.match(out, /Backed up 3 repositories/)
    assert.match(await mustRun(['backup', 'verify', site.backup]), /is intact: 3 repositories/)
    await site.restored(async (again) => {
      assert.equal((await again.admin.get('/repos')).body.length, 3)
      assert.equal((await again.admin.get('/repos/site')).status, 200)
    })
  },
)

test('a backup keeps data whose source files were lost since', exhaustive, async () => {
  await using site = await original.start()
  await site.backUp()
  const before = await contentOf(site.backup)
  const path = site.pathOf('site')
  await rename(join(path, 'objects', 'pack'), join(path, 'elsewhere'))
  await mkdir(join(path, 'objects', 'pack'))
  assertRefused(await runSvc(['backup', site.backup], site.env), /All objects of .* are lost/)
  assert.deepEqual(await contentOf(site.backup), before)
  await rename(path, `${path}-elsewhere`)
  assertRefused(
    await runSvc(['backup', site.backup], site.env),
    /The files of 1 repository are lost: site\. The previous backup has them/,
  )
  assert.deepEqual(await contentOf(site.backup), before)
  await assertWhole(site.backup)
  await site.service.admin.delete('/repos/site')
  await site.backUp()
})

test('unusual and long ref names survive a backup', exhaustive, async () => {
  await using site = await original.copy()
  const path = site.pathOf('site')
  const tip = (await git(path, ['--git-dir', path, 'rev-parse', 'HEAD'])).stdout
  const long = Array(5).fill('é'.repeat(120)).join('/')
  for (const name of ['voilà', 'x\u0085y', long]) {
    await git(path, ['--git-dir', path, 'update-ref', `refs/heads/${name}`, tip])
  }
  await git(path, ['--git-dir', path, 'symbolic-ref', 'HEAD', 'refs/heads/voilà'])
  const before = await site.refs()
  await site.backUp()
  await assertWhole(site.backup)
  await git(path, ['--git-dir', path, 'pack-refs', '--all'])
  await site.backUp()
  await assertWhole(site.backup)
  await site.restored(async (again) => {
    assert.deepEqual(await refsOf(again), before)
    assert.equal((await again.admin.get('/repos/site')).body.defaultBranch, 'voilà')
  })
})

const needed = { skip: without('postgres') }

test('a backup of SQLite restores into PostgreSQL, and one of PostgreSQL into SQLite', {
  ...exhaustive,
  ...needed,
}, async () => {
  await using site = await original.copy()
  await site.backUp()
  const before = await site.refs()
  const { url, drop } = await createPostgresDatabase({ isEmpty: true })
  {
    const dataDir = join(site.folder, 'moved')
    const env = { SVC_DATA_DIR: dataDir, SVC_DATABASE_URL: url }
    await mustRun(['restore', site.backup], env)
    assert.ok(!(await readdir(dataDir)).includes('svc.db'))
    const started = { SVC_DATABASE_URL: url, SVC_ADMIN_TOKEN: site.adminToken }
    await using moved = await startService({ dataDir, env: started })
    assert.deepEqual(await refsOf(moved), before)
    assert.equal((await moved.admin.get('/repos')).body.length, 3)
    await moved.admin.post('/repos', { name: 'new' })
    await site.project.git('push', '--quiet', moved.admin.remote('new'), 'main')
    await until('the push is finished', async () => (await readEvents(env)).includes('"new"'))

    const back = join(site.folder, 'back')
    await mustRun(['backup', back], env)
    await assertWhole(back)
    const returned = join(site.folder, 'returned')
    await mustRun(['restore', back], { SVC_DATA_DIR: returned })
    await using again = await startService({
      dataDir: returned,
      env: { SVC_ADMIN_TOKEN: site.adminToken },
    })
    await assertAgrees(again)
    assert.deepEqual(await refsOf(again), await refsOf(moved))

    const refused = await runSvc(['restore', back], {
      ...env,
      SVC_DATA_DIR: join(site.folder, 'x'),
    })
    assertRefused(refused, /The database of SVC_DATABASE_URL is not empty/)
    await assert.rejects(stat(join(site.folder, 'x')), { code: 'ENOENT' })
  }
  await drop()
})

/** What the events of pushes say in a PostgreSQL service. */
async function readEvents(env: {
  SVC_DATA_DIR: string
  SVC_DATABASE_URL: string
}): Promise<string> {
  const client = new pg.Client(env.SVC_DATABASE_URL)
  await client.connect()
  const { rows } = await client.query(`select data from events where kind = 'push'`)
  await client.end()
  return rows.map(({ data }) => data).join('\n')
}

/** Changes one byte in the middle of a file. */
async function flip(path: string, modifiedAt?: Date): Promise<void> {
  const bytes = await readFile(path)
  const middle = Math.floor(bytes.length / 2)
  bytes[middle] = (bytes[middle] ?? 0) ^ 1
  await writeFile(path, bytes)
  if (modifiedAt) await utimes(path, modifiedAt, modifiedAt)
}
