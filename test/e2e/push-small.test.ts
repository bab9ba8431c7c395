import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { findProgram } from '#base/find-program.ts'
import { packHeader } from '#git/objects/pack.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { until } from '../support/condition.ts'
import { createPrograms } from '../support/doctor.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project, spawnGit, temporaryFolder } from '../support/git.ts'
import { writeBranch, writeObject, writeTree } from '../support/hostile-objects.ts'
import { untilTidy } from '../support/leftovers.ts'
import { formatCapability, gitZeros, idDigits, objectFormat } from '../support/object-format.ts'
import { without } from '../support/programs.ts'
import { openPushRecords } from '../support/push-records.ts'
import { gitHeaders } from '../support/raw-git.ts'
import { launcher, type Service, startService } from '../support/service.ts'
import { startSshSite } from '../support/ssh-site.ts'

const main = 'refs/heads/main'
const ofPushes = ['receive-pack', 'index-pack', 'rev-list', 'update-ref', 'merge-base']

test('a push of commits onto a branch starts no git but the one that checks their objects', async () => {
  await using site = await startSite()
  await using project = await createProject()
  await mkdir(join(project.path, 'src'))
  const push = async (...args: string[]) => {
    await project.git('push', '--quiet', '--force', site.remote, ...args)
    return site.started()
  }
  const started: Record<string, string[]> = {}
  started.create = await push(`HEAD:${main}`)
  await project.commit('src/second.txt')
  started.update = await push(`HEAD:${main}`)
  await project.commit('third.txt')
  await project.git('commit', '--quiet', '--allow-empty', '-m', 'Fourth')
  started.two = await push(`HEAD:${main}`)
  await project.commit('src/fifth.txt')
  await site.overSsh(project.path, ['push', '--quiet', site.ssh, `HEAD:${main}`])
  started.overSsh = await site.started()
  await project.git('mv', 'src/fifth.txt', 'fifth.txt')
  await project.git('commit', '--quiet', '-m', 'Move to another folder')
  started.move = await push(`HEAD:${main}`)
  await site.git('pack-refs', '--all')
  await project.commit('sixth.txt')
  started.packed = await push(`HEAD:${main}`)
  await project.git('commit', '--quiet', '--amend', '-m', 'Another one')
  started.force = await push(`HEAD:${main}`)
  await project.commit('seventh.txt')
  started.twoRefs = await push(`HEAD:${main}`, 'HEAD:refs/heads/other')
  const alone = ['index-pack']
  assert.deepEqual(started, {
    ...{ create: alone, update: alone, two: alone, overSsh: alone },
    ...{ move: ['index-pack', 'rev-list'], packed: alone },
    // What receive-pack starts itself is not recorded.
    ...{ force: [...alone, 'merge-base', 'update-ref'], twoRefs: ['receive-pack', 'merge-base'] },
  })
  assert.equal(await site.git('rev-parse', main), await project.git('rev-parse', 'HEAD'))
  await site.git('fsck', '--full', '--strict')
  await untilTidy(site.service.dataDir)
  const { body: pushes } = await site.service.admin.get('/repos/site/pushes')
  assert.equal(pushes.length, Object.keys(started).length)
})

test(
  'a new branch or tag, and one that moves to a commit that is there, start no more',
  exhaustive,
  async () => {
    await using site = await startSite()
    await using project = await createProject()
    const commits = [await project.git('rev-parse', 'HEAD')]
    for (let number = 0; number < 40; number++)
      commits.push(await project.commit('file.txt', `${number}\n`))
    const [oldest = '', , newer = ''] = [commits[0], commits[1], commits.at(-3)]
    await project.git('push', '--quiet', site.remote, `HEAD:${main}`)
    await site.started()
    const push = async (...args: string[]) => {
      await project.git('push', '--quiet', '--force', site.remote, ...args)
      return site.started()
    }
    let files = 0
    const branchFrom = async (base: string, name: string) => {
      await project.git('switch', '--quiet', '--detach', base)
      return `${await project.commit(`new-${files++}.txt`)}:refs/heads/${name}`
    }
    const tag = async (id: string, name: string, ...options: string[]) => {
      await project.git('tag', name, id, ...options)
      return `refs/tags/${name}`
    }
    const annotated = ['-a', '-m', 'A tag']
    const started: Record<string, string[]> = {}
    started.onTip = await push(await branchFrom(newer, 'topic/one'))
    started.onOther = await push(await branchFrom('HEAD', 'topic/two'))
    started.onOld = await push(await branchFrom(oldest, 'old'))
    started.same = await push(`${commits.at(-1)}:refs/heads/same`)
    started.near = await push(`${newer}:refs/heads/near`)
    started.far = await push(`${oldest}:refs/heads/far`)
    started.forward = await push(`${commits.at(-1)}:refs/heads/near`)
    started.back = await push(`${newer}:refs/heads/near`)
    started.tag = await push(await tag(newer, 'light'))
    started.annotated = await push(await tag(newer, 'v1', ...annotated))
    started.ofOld = await push(await tag(oldest, 'v0', ...annotated))
    started.ofFile = await push(await tag(`${newer}:file.txt`, 'text', ...annotated))
    started.ofTag = await push(await tag('v1', 'v1-signed', ...annotated))
    started.movedTag = await push(await tag('v1', 'v0', '--force', ...annotated))
    started.amended = await push(await branchFrom(newer, 'topic/one'))
    await site.git('pack-refs', '--all')
    started.packed = await push(await branchFrom(newer, 'topic/three'))
    const overSsh = ['push', '--quiet', site.ssh]
    await site.overSsh(project.path, [...overSsh, await branchFrom(newer, 'ssh')])
    started.overSsh = await site.started()
    const alone = ['index-pack']
    const checked = ['index-pack', 'rev-list']
    const byGit = ['receive-pack']
    assert.deepEqual(started, {
      ...{ onTip: alone, onOther: alone, onOld: checked, same: [], near: [], far: byGit },
      ...{ forward: [], back: [...byGit, 'merge-base', 'update-ref'], tag: [] },
      ...{ annotated: alone, ofOld: alone, ofFile: checked, ofTag: checked },
      ...{ movedTag: [...byGit, 'update-ref'], amended: [...alone, 'merge-base', 'update-ref'] },
      ...{ packed: alone, overSsh: alone },
    })
    await site.git('fsck', '--full', '--strict')
    await untilTidy(site.service.dataDir)
    const { body: pushes } = await site.service.admin.get('/repos/site/pushes')
    assert.equal(pushes.length, Object.keys(started).length + 1)
    assert.ok(!site.service.log().includes('"level":"error"'), site.service.log())
  },
)

test('a refused push has the words of any other, and leaves nothing', async () => {
  await using site = await startSite()
  await using project = await createProject()
  await project.git('push', '--quiet', site.remote, `HEAD:${main}`)
  for (const name of ['main', 'new'])
    await site.service.admin.put(`/repos/site/protections/branches/${name}`, { owners: 'none' })
  await project.commit('second.txt')
  await site.started()
  const refusalOf = async (...refs: string[]) => {
    const pushing = project.git('push', site.remote, ...refs)
    const { stderr } = await pushing.then(
      () => assert.fail('It was accepted.'),
      (error) => error,
    )
    return String(stderr)
      .split('\n')
      .filter((line) => line.startsWith('remote: ') || /main|new/.test(line))
      .map((line) => line.trimEnd())
  }
  const small = await refusalOf(`HEAD:${main}`)
  assert.deepEqual(await site.started(), ['index-pack'])
  const large = await refusalOf(`HEAD:${main}`, 'HEAD:refs/heads/other')
  assert.deepEqual(small, large)
  assert.match(small.join('\n'), /^remote: .*main.*\n.*pre-receive hook declined/s)
  await site.started()
  const created = await refusalOf('HEAD:refs/heads/new')
  assert.deepEqual(await site.started(), ['index-pack'])
  const there = await refusalOf('HEAD^:refs/heads/new')
  assert.deepEqual(await site.started(), [])
  assert.deepEqual(there.slice(0, 1), created.slice(0, 1))
  assert.deepEqual(created, await refusalOf('HEAD:refs/heads/new', 'HEAD:refs/heads/other'))
  await untilTidy(site.service.dataDir)
  using records = openPushRecords(site.service.dataDir)
  assert.deepEqual(records.unfinished(), [])
})

test('objects that git refuses are refused by git, with its reason', async () => {
  await using site = await startSite()
  await using project = await createProject()
  await project.git('push', '--quiet', site.remote, `HEAD:${main}`)
  const before = await project.git('rev-parse', 'HEAD')
  const bare = join(project.path, '.git')
  const blob = await writeObject(bare, 'blob', 'text\n')
  const tree = await writeTree(bare, [{ mode: '100644', name: '.git', id: blob }])
  const other = await writeBranch(bare, 'other', tree)
  const text = await project.git('cat-file', 'commit', other)
  const child = text.replace('\nauthor', `\nparent ${before}\nauthor`)
  const after = await writeObject(bare, 'commit', `${child}\n`)
  const pushing = project.git('push', site.remote, `${after}:${main}`)
  await assert.rejects(pushing, /hasDotgit[\s\S]*unpacker error/)
  assert.equal(await site.git('rev-parse', main), before)
  await untilTidy(site.service.dataDir)
})

test(
  'a branch that another process has locked stays as it is, and the push fails',
  exhaustive,
  async () => {
    await using site = await startSite()
    await using project = await createProject()
    await project.git('push', '--quiet', site.remote, `HEAD:${main}`)
    const before = await project.git('rev-parse', 'HEAD')
    await project.commit('second.txt')
    const lock = join(site.directory, `${main}.lock`)
    await writeFile(lock, '')
    const pushing = project.git('push', site.remote, `HEAD:${main}`)
    await assert.rejects(pushing, ({ stderr }) => {
      assert.match(stderr, /remote: error: cannot lock ref 'refs\/heads\/main': .*File exists/)
      assert.match(stderr, /main \(failed to update ref\)/)
      assert.ok(!stderr.includes(site.directory), stderr)
      return true
    })
    assert.equal(await site.git('rev-parse', main), before)
    using records = openPushRecords(site.service.dataDir)
    assert.deepEqual(records.unfinished(), [])
    await rm(lock)
    await project.git('push', '--quiet', site.remote, `HEAD:${main}`)
    assert.equal((await site.service.admin.get('/repos/site/pushes')).body.length, 2)
  },
)

test('what git refuses or remarks on is left to git', async () => {
  await using site = await startSite()
  await using project = await createProject()
  const first = await project.git('rev-parse', 'HEAD')
  await project.git('push', '--quiet', site.remote, `HEAD:${main}`)
  const second = await project.commit('second.txt')
  const push = async (options: RawPush) => {
    const response = await pushRaw(site, project, options)
    assert.ok((await site.started()).includes('receive-pack'), JSON.stringify(options))
    return response
  }
  const update = { before: first, after: second }
  await site.started()
  const other = objectFormat === 'sha1' ? 'sha256' : 'sha1'
  const capabilities = `report-status side-band-64k object-format=${other}`
  assert.match(await push({ ...update, capabilities }), /does not follow/)
  assert.match(await push({ ...update, shallow: [second] }), /shallow update not allowed/)
  const none = { ...update, ref: 'refs/heads/none' }
  assert.match(await push(none), /cannot lock ref 'refs\/heads\/none'.*ng refs\/heads\/none /s)
  assert.match(await push({ before: first, after: first }), /ok refs\/heads\/main/)
  assert.equal(await site.git('rev-parse', main), first)

  const bare = join(project.path, '.git')
  const blob = await project.git('rev-parse', 'HEAD:second.txt')
  const tree = await writeTree(bare, [{ mode: '100664', name: 'second.txt', id: blob }])
  const text = (await project.git('cat-file', 'commit', second)).replace(/^tree .*/, `tree ${tree}`)
  const after = await writeObject(bare, 'commit', `${text}\n`)
  assert.match(await push({ before: first, after }), /badFilemode.*ok refs\/heads\/main/s)
  assert.equal(await site.git('rev-parse', main), after)
  await site.git('fsck', '--full')
  await untilTidy(site.service.dataDir)

  await project.git('reset', '--quiet', '--hard', after)
  const third = await project.commit('third.txt')
  await rename(join(site.directory, 'objects'), join(site.directory, 'lost'))
  await push({ before: after, after: third })
  assert.ok(!site.service.log().includes('"level":"error"'), site.service.log())
})

test('a new branch that would not be whole is refused by git', async () => {
  await using site = await startSite()
  await using project = await createProject()
  const first = await project.git('rev-parse', 'HEAD')
  await project.git('push', '--quiet', site.remote, `HEAD:${main}`)
  const bare = join(project.path, '.git')
  const commitOn = async (parent: string, more = '') => {
    const tree = await project.git('rev-parse', 'HEAD^{tree}')
    const signature = 'Ada <ada@example.com> 1700000000 +0000'
    const lines = [`tree ${tree}`, `parent ${parent}`, `author ${signature}`]
    const text = [...lines, `committer ${signature}`, ...(more && [more]), '', 'New', ''].join('\n')
    return await writeObject(bare, 'commit', text)
  }
  const refuse = async (options: Omit<RawPush, 'before' | 'ref'>, reason: RegExp) => {
    await site.started()
    const ref = 'refs/heads/new'
    const response = await pushRaw(site, project, { before: gitZeros, ref, ...options })
    assert.match(response, reason)
    assert.ok((await site.started()).includes('receive-pack'))
    assert.equal(await site.git('for-each-ref', '--format=%(refname)', 'refs/heads'), main)
  }
  const absent = 'a'.repeat(idDigits)
  await refuse({ after: await commitOn(absent), pack: 'alone' }, /did not receive expected object/)
  await refuse({ after: absent, pack: 'empty' }, /missing necessary objects|bad pack/)

  // A commit that the repository has, and whose tree it does not have, as after an interrupted clean-up.
  const hollow = (await project.git('cat-file', 'commit', first)).replace(/[0-9a-f]{40,64}/, absent)
  const base = await writeObject(site.directory, 'commit', `${hollow}\n`)
  await refuse({ after: base, pack: 'empty' }, /missing necessary objects/)
  await refuse({ after: await commitOn(base), pack: 'alone' }, /missing necessary objects/)
  // It only looks like a parent: git ignores a line after the committer.
  const claim = await commitOn(first, `parent ${base}`)
  await pushRaw(site, project, { before: first, after: claim, ref: main, pack: 'alone' })
  assert.equal(await site.git('rev-parse', main), claim)
  await refuse({ after: base, pack: 'empty' }, /missing necessary objects/)
  await refuse({ after: await commitOn(base), pack: 'alone' }, /missing necessary objects/)

  await project.git('tag', '-a', '-m', 'One', 'v1', first)
  const tag = await project.git('rev-parse', 'v1')
  await refuse({ after: tag, pack: 'alone' }, /non-commit object.*ng refs\/heads\/new /s)
  await project.git('push', '--quiet', site.remote, 'v1')
  await refuse({ after: tag, pack: 'empty' }, /non-commit object.*ng refs\/heads\/new /s)
  await refuse({ after: first, pack: 'damaged' }, /unpack (?!ok)/)
  await site.git('fsck', '--connectivity-only')
  await untilTidy(site.service.dataDir)
})

test('a new branch that another one is in the way of is refused in words of git', async () => {
  await using site = await startSite()
  await using project = await createProject()
  await project.git('push', '--quiet', site.remote, `HEAD:${main}`)
  await project.git('push', '--quiet', site.remote, 'HEAD:refs/heads/topic/one')
  await project.commit('second.txt')
  for (const packs of [false, true]) {
    if (packs) await site.git('pack-refs', '--all')
    for (const [ref, other] of [
      ['refs/heads/main/new', main],
      ['refs/heads/topic', 'refs/heads/topic/one'],
    ]) {
      const pushing = project.git('push', site.remote, `HEAD:${ref}`)
      await assert.rejects(pushing, ({ stderr }) => {
        assert.match(
          stderr,
          new RegExp(`remote: error: (?:cannot lock ref '${ref}': )?'${other}' exists`),
        )
        assert.match(stderr, /failed to update ref/)
        assert.ok(!stderr.includes(site.directory), stderr)
        return true
      })
    }
  }
  const { body: pushes } = await site.service.admin.get('/repos/site/pushes')
  assert.equal(pushes.length, 2)
  await untilTidy(site.service.dataDir)
})

test('a branch behind a symbolic ref is created where that leads', async () => {
  await using site = await startSite()
  await using project = await createProject()
  await project.git('push', '--quiet', site.remote, `HEAD:${main}`)
  await site.git('symbolic-ref', 'refs/heads/alias', 'refs/heads/real')
  await project.commit('second.txt')
  await project.git('push', '--quiet', site.remote, 'HEAD:refs/heads/alias')
  assert.equal(await site.git('symbolic-ref', 'refs/heads/alias'), 'refs/heads/real')
  assert.equal(await site.git('rev-parse', 'real'), await project.git('rev-parse', 'HEAD'))
})

test('objects and the intended update are on disk before the ref moves', {
  ...exhaustive,
  skip: without('strace'),
}, async () => {
  await using folder = await temporaryFolder()
  const trace = join(folder.path, 'trace')
  const calls = 'fsync,fdatasync,rename,renameat,renameat2'
  const strace = `exec strace -D -f -qq -y -e trace=${calls} -o '${trace}'`
  await using programs = await createPrograms({ traced: `${strace} '${launcher}' "$@"` })
  await using service = await startService({ program: join(programs.path, 'traced') })
  await using project = await createProject()
  await service.admin.post('/repos', { name: 'site' })
  let length = 0
  /** What a push has synced and renamed until its ref has its place. */
  const push = async (branch: string) => {
    await project.git('push', '--quiet', service.admin.remote('site'), `HEAD:${branch}`)
    return until('the ref has moved', async () => {
      const all = stepsIn((await readFile(trace, 'utf8')).slice(length))
      const end = all.indexOf(`rename ${basename(branch)}.lock`)
      return end !== -1 && all.slice(0, end + 1)
    })
  }
  for (const branch of ['refs/heads/main', 'refs/heads/main', 'refs/heads/topic/new']) {
    length = (await readFile(trace, 'utf8')).length
    await project.commit('file.txt', randomUUID())
    const steps = await push(branch)
    const pack = ['pack', 'idx'].map((type) => steps.indexOf(`rename in quarantine ${type}`))
    const synced = ['pack', 'idx', 'svc-ref', 'svc.db-wal'].map((name) =>
      steps.indexOf(`sync ${name}`),
    )
    assert.ok(Math.min(...synced) !== -1, steps.join('\n'))
    assert.ok(Math.max(...synced) < Math.min(...pack), steps.join('\n'))
    // Other work of the server may be synced between them.
    assert.deepEqual(steps.filter((step) => step.startsWith('rename ')).slice(-3), [
      ...['rename in quarantine pack', 'rename in quarantine idx'],
      `rename ${basename(branch)}.lock`,
    ])
  }
  // Without objects, too.
  length = (await readFile(trace, 'utf8')).length
  const steps = await push('refs/heads/topic/same')
  for (const name of ['svc-ref', 'svc.db-wal'])
    assert.ok(steps.includes(`sync ${name}`), steps.join('\n'))
  assert.ok(!steps.some((step) => step.includes('quarantine')), steps.join('\n'))
})

type RawPush = {
  before: string
  after: string
  ref?: string
  capabilities?: string
  shallow?: string[]
  /** The pack: with the new value alone, or without objects; by default, with all that is new since the old value. */
  pack?: 'alone' | 'empty' | 'damaged' | undefined
}

/** Pushes as a client could that is not git; the response. */
async function pushRaw(
  { service }: { service: Service },
  project: Project,
  { before, after, ref = main, capabilities, shallow = [], pack }: RawPush,
): Promise<string> {
  const body = Buffer.concat([
    ...shallow.map((id) => packet(`shallow ${id}\n`)),
    packet(
      `${before} ${after} ${ref}\0 ${capabilities ?? `report-status side-band-64k${formatCapability}`}`,
    ),
    flushPacket,
    await packOf(project, { before, after, pack }),
  ])
  const response = await fetch(`${service.url}/repos/site.git/git-receive-pack`, {
    method: 'POST',
    body,
    headers: { ...gitHeaders('git-receive-pack', service.adminToken, body.length) } as Record<
      string,
      string
    >,
  })
  return await response.text()
}

async function packOf(
  project: Project,
  { before, after, pack }: Pick<RawPush, 'before' | 'after' | 'pack'>,
): Promise<Buffer> {
  if (pack === 'empty' || pack === 'damaged') {
    const checksum = createHash(objectFormat).update(packHeader(0)).digest()
    if (pack === 'damaged') checksum.writeUInt8(checksum.readUInt8() ^ 1)
    return Buffer.concat([packHeader(0), checksum])
  }
  const options = pack === 'alone' ? [] : ['--revs', '--thin']
  const packing = spawnGit(project.path, ['pack-objects', '--stdout', '-q', ...options])
  packing.stdin.end(pack === 'alone' ? `${after}\n` : `${after}\n^${before}\n`)
  return Buffer.concat(await packing.stdout.toArray())
}

/** The syncs and renames of a trace, in the order in which they ended, without the checksums of packs. */
function stepsIn(trace: string): string[] {
  const steps: string[] = []
  for (const [, sync = '', from = ''] of trace.matchAll(
    /\bf(?:data)?sync\(\d+<(.+?)>|\brename(?:at2?)?\((?:AT_FDCWD<[^>]*>, )?"(.+?)"/g,
  )) {
    const name = basename(sync || from).replace(/^pack-\w+\./, '')
    const kind = sync
      ? 'sync'
      : from.includes('/tmp_objdir-incoming-')
        ? 'rename in quarantine'
        : 'rename'
    steps.push(`${kind} ${name}`)
  }
  return steps
}

/** A service with the repository `site`, which records the git commands that it starts. */
async function startSite() {
  await using starting = new AsyncDisposableStack()
  const real = findProgram('git', process.env.PATH ?? '')
  // The folder of the script; git starts its own commands from elsewhere.
  const script = `printf '%s\n' "$*" >>"\${0%/*}/started"; exec '${real}' "$@"`
  const programs = starting.use(await createPrograms({ git: script }))
  const record = join(programs.path, 'started')
  const site = starting.use(await startSshSite({ env: { PATH: programs.first } }))
  const { service } = site
  const directory = String((await service.admin.get('/repos/site')).body.path)
  const started = starting.move()
  return {
    service,
    directory,
    remote: service.admin.remote('site'),
    ssh: site.remote(),
    overSsh: site.git,
    git: async (...args: string[]) => (await git(directory, args)).stdout,

    /** The commands of pushes that were started since the last call, by name. */
    async started(): Promise<string[]> {
      const lines = (await readFile(record, 'utf8')).split('\n')
      await writeFile(record, '')
      return lines
        .filter((line) => !line.includes('--http-backend-info-refs'))
        .flatMap((line) => line.split(' ').find((word) => ofPushes.includes(word)) ?? [])
    },

    [Symbol.asyncDispose]: () => started.disposeAsync(),
  }
}
