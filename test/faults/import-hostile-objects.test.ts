// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { appendFile, chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { git, temporaryFolder } from '../support/git.ts'
import {
  createSource,
  type TreeEntry,
  writeBranch,
  writeObject,
  writeTree,
} from '../support/hostile-objects.ts'
import { type ImportSite, startImportSite } from '../support/import-site.ts'
import { launcher } from '../support/service.ts'

const execute = promisify(execFile)

// What exceeds it is written, compressed and checked: a small limit makes that cheap.
const memoryMaxMebibytes = 64

let site: ImportSite

type Objects = {
  what: string
  detail: RegExp
  entries: (path: string, blob: string) => Promise<TreeEntry[]>
}

const file = '100644'
const link = '120000'
const folder = '40000'

const refused: Objects[] = [
  {
    what: '".git"',
    detail: /invalid object: [0-9a-f]{40}, hasDotgit: contains '\.git'/,
    entries: async (path, blob) => [
      {
        mode: folder,
        name: '.git',
        id: await writeTree(path, [{ mode: file, name: 'x', id: blob }]),
      },
    ],
  },
  {
    what: '".GIT", which some file systems take for it',
    detail: /invalid object: .*hasDotgit/,
    entries: async (_path, blob) => [{ mode: file, name: '.GIT', id: blob }],
  },
  {
    what: '".."',
    detail: /invalid object: .*hasDotdot/,
    entries: async (path, blob) => [
      {
        mode: folder,
        name: '..',
        id: await writeTree(path, [{ mode: file, name: 'x', id: blob }]),
      },
    ],
  },
  {
    what: 'a slash',
    detail: /invalid object: .*fullPathname/,
    entries: async (_path, blob) => [{ mode: file, name: 'a/b', id: blob }],
  },
  {
    what: 'a name twice',
    detail: /invalid object: .*duplicateEntries/,
    entries: async (_path, blob) => [
      { mode: file, name: 'a', id: blob },
      { mode: file, name: 'a', id: blob },
    ],
  },
  {
    what: 'a .gitmodules that is a symbolic link',
    detail: /invalid object: .*gitmodulesSymlink/,
    entries: async (path) => [
      { mode: link, name: '.gitmodules', id: await writeObject(path, 'blob', '/etc/passwd') },
    ],
  },
  {
    what: 'a .gitmodules with an address that is an option',
    detail: /invalid object: .*gitmodulesUrl/,
    entries: async (path) => {
      const text = `[submodule "x"]\n\tpath = x\n\turl = -u./payload\n`
      return [{ mode: file, name: '.gitmodules', id: await writeObject(path, 'blob', text) }]
    },
  },
  {
    what: 'a .gitmodules with a command',
    detail: /invalid object: .*gitmodulesUpdate/,
    entries: async (path) => {
      const update = `!${site.canary('update')}`
      const text = `[submodule "x"]\n\tpath = x\n\turl = /x\n\tupdate = ${update}\n`
      return [{ mode: file, name: '.gitmodules', id: await writeObject(path, 'blob', text) }]
    },
  },
  {
    what: 'a .gitmodules with a name that leads out',
    detail: /invalid object: .*gitmodulesName/,
    entries: async (path) => {
      const text = `[submodule "../../x"]\n\tpath = x\n\turl = https://example.com/x\n`
      return [{ mode: file, name: '.gitmodules', id: await writeObject(path, 'blob', text) }]
    },
  },
  {
    what: 'a file that is not there',
    detail: /is damaged/,
    entries: async () => [{ mode: file, name: 'x', id: 'deadbeef'.repeat(5) }],
  },
]

describe('hostile objects and harmless ones in sources of imports', () => {
  before(async () => {
    site = await startImportSite({ env: { SVC_PUSH_MEMORY_MAX: `${memoryMaxMebibytes}MiB` } })
  })

  after(() => site[Symbol.asyncDispose]())

  for (const { what, detail, entries } of refused) {
    test(`a source with ${what} in a folder is rejected`, async () => {
      const path = await createSource(site.path())
      const blob = await writeObject(path, 'blob', 'x\n')
      await writeBranch(path, 'x', await writeTree(path, await entries(path, blob)))
      await site.refused(path, { detail })
    })
  }

  test('harmless faults of old tools are imported unchanged', async () => {
    const path = await createSource(site.path())
    const blob = await writeObject(path, 'blob', 'x\n')
    const padded = await writeTree(path, [{ mode: `0${file}`, name: 'x', id: blob }])
    const authors = [
      'Ada <ada@example.com> 1700000000 +051800',
      'Ada <ada@example.com>1700000000 +0000',
      'Ada<ada@example.com> 1700000000 +0000',
      'Ada <ada@example.com> 01700000000 +0000',
    ]
    const ids: string[] = []
    for (const [number, author] of authors.entries()) {
      ids.push(await writeBranch(path, `old-${number}`, padded, { author }))
    }
    const name = await site.imported(path)
    const { stdout } = await git('/', ['ls-remote', site.service.admin.remote(name)])
    for (const [number, id] of ids.entries()) {
      assert.match(stdout, new RegExp(`^${id}\trefs/heads/old-${number}$`, 'm'))
    }
  })

  test('a branch that is not a commit is rejected', async () => {
    const path = await createSource(site.path())
    const blob = await writeObject(path, 'blob', 'x\n')
    await writeFile(join(path, 'refs/heads/x'), `${blob}\n`)
    await site.refused(path, { detail: /a branch that does not point to a commit/ })
  })

  test('settings, hooks and commands of a source are ignored', async () => {
    const path = await createSource(site.path())
    const settings = [
      ['core.fsmonitor', site.canary('fsmonitor')],
      ['core.pager', site.canary('pager')],
      ['core.sshCommand', site.canary('ssh')],
      ['core.askPass', site.canary('askpass')],
      ['core.editor', site.canary('editor')],
      ['core.alternateRefsCommand', site.canary('alternates')],
      ['core.gitProxy', site.canary('proxy')],
      ['core.hooksPath', join(path, 'hooks')],
      ['uploadpack.packObjectsHook', site.canary('pack-objects')],
      ['credential.helper', `!${site.canary('credential')}`],
      ['remote.origin.uploadpack', site.canary('upload-pack')],
      ['alias.upload-pack', `!${site.canary('alias')}`],
      ['filter.x.clean', site.canary('filter')],
      ['gpg.program', site.canary('gpg')],
      ['include.path', '/etc/shadow'],
      ['include.path', 'config'],
      ['includeIf.gitdir:/.path', '/dev/zero'],
    ] as const
    // Git's own command would follow what is included.
    const lines = settings.map(([name, value]) => {
      const [, section, middle, key] = /^(\w+)\.(?:(.*)\.)?(\w+)$/.exec(name) ?? []
      return `[${section}${middle === undefined ? '' : ` "${middle}"`}]\n\t${key} = ${value}\n`
    })
    await appendFile(join(path, 'config'), lines.join(''))
    await mkdir(join(path, 'hooks'))
    for (const hook of ['post-checkout', 'pre-receive', 'update', 'reference-transaction']) {
      const place = join(path, 'hooks', hook)
      await writeFile(place, `#!/bin/sh\n${site.canary(hook)}\n`)
      await chmod(place, 0o755)
    }
    const name = await site.imported(path)
    const { body } = await site.service.admin.get(`/repos/${name}`)
    const { stdout } = await git(body.path, ['config', '--list', '--local', '--name-only'])
    for (const line of stdout.split('\n'))
      assert.match(line, /^core\.(bare|filemode|repositoryformatversion)$/)
  })

  test('refs with rejected names are omitted, and the rest is complete', async () => {
    const path = await createSource(site.path())
    const { stdout: id } = await git(path, ['rev-parse', 'main'])
    const outside = ['refs/heads/-x', 'refs/heads/HEAD', `refs/tags/${id}`, `refs/replace/${id}`]
    const left = [...outside, 'refs/svc/x', 'refs/heads/refs/heads/y', 'refs/tags/refs/x']
    const kept = ['refs/heads/fine', 'refs/notes/commits', 'refs/pull/1/head', 'refs/heads/a/b/c']
    const lines = [...left, ...kept, 'refs/heads/fine'].map((ref) => `${id} ${ref}\n`)
    const own = await readFile(join(path, 'packed-refs'), 'utf8')
    // Git takes what is not said to be sorted as it is.
    await writeFile(join(path, 'packed-refs'), own.replace(/^#.*\n/, '') + lines.join(''))
    const { stdout: packed } = await git(path, ['for-each-ref', '--format=%(refname)'])
    for (const ref of [...left, ...kept]) assert.ok(packed.split('\n').includes(ref), ref)
    await writeFile(join(path, 'refs/heads/loop'), 'ref: refs/heads/loop\n')
    await writeFile(join(path, 'refs/heads/alias'), 'ref: refs/heads/main\n')
    await mkdir(join(path, 'refs/remotes/origin'), { recursive: true })
    await writeFile(join(path, 'refs/remotes/origin/HEAD'), 'ref: refs/remotes/origin/gone\n')
    const name = await site.imported(path)
    const { body } = await site.service.admin.get(`/repos/${name}`)
    const { stdout } = await git(body.path, ['for-each-ref', '--format=%(refname)'])
    const expected = [...kept, 'refs/heads/main', 'refs/tags/v1', 'refs/heads/alias']
    assert.deepEqual(stdout.split('\n').sort(), expected.sort())
  })

  test('with a detached HEAD the usual branch becomes the default one', async () => {
    const path = await createSource(site.path())
    const { stdout: id } = await git(path, ['rev-parse', 'main'])
    await git(path, ['branch', 'a'])
    await writeFile(join(path, 'HEAD'), `${id}\n`)
    const { body } = await site.service.admin.get(`/repos/${await site.imported(path)}`)
    assert.equal(body.defaultBranch, 'main')
  })

  test('wide and deep directories of refs do not exhaust the file descriptors', async () => {
    await using folder = await temporaryFolder()
    const program = join(folder.path, 'few-descriptors')
    // Node takes as many as the hard limit allows.
    const script = `#!/bin/sh\nulimit -n 1024\nexec '${launcher}' "$@"\n`
    await writeFile(program, script, { mode: 0o755 })
    await using few = await startImportSite({ program })
    const path = await createSource(few.path())
    await git(path, ['update-ref', `refs/heads/${'a/'.repeat(480)}b`, 'main'])
    // More directories than descriptors.
    const level = Array.from({ length: 6 }, (_, number) => String(number))
    for (const a of level) {
      for (const b of level) {
        for (const c of level) {
          for (const d of level) await mkdir(join(path, 'refs', a, b, c, d), { recursive: true })
        }
      }
    }
    // Deeper than any ref name is long.
    await mkdir(join(path, 'refs', 'deep/'.repeat(700)), { recursive: true })
    await few.imported(path)
  })

  test('a highly compressed file twice as large as the memory limit is imported', async () => {
    const path = await createSource(site.path())
    await packZeros(path, 2 * memoryMaxMebibytes, 'zeros.bin')
    await site.imported(path)
  })

  test('a .gitmodules that is too large is rejected', async () => {
    const path = await createSource(site.path())
    await packZeros(path, 32, '.gitmodules')
    await site.refused(path, { detail: /invalid object: .*gitmodules/ })
  })

  test('an object that exceeds the memory limit of imports is rejected', async () => {
    const path = await createSource(site.path())
    await writeBranch(path, 'large', await largeTree(path))
    await site.refused(path, { detail: /take too much memory|is damaged/ })
  })
})

/** Makes a branch with a file of zeros, packed. */
async function packZeros(path: string, mebibytes: number, name: string): Promise<void> {
  const script = `head -c ${mebibytes}M /dev/zero | git --git-dir=. -c core.bigFileThreshold=1m hash-object -w --stdin`
  const { stdout: blob } = await execute('sh', ['-c', script], { cwd: path })
  const tree = await writeTree(path, [{ mode: file, name, id: blob.trim() }])
  await writeBranch(path, 'zeros', tree)
}

/** A tree that is larger than the memory of a process may be, and packs well. */
function largeTree(path: string): Promise<string> {
  const id = Buffer.alloc(20, 0xde)
  const entry = (number: number) =>
    Buffer.concat([Buffer.from(`${folder} ${String(number).padStart(9, '0').repeat(16)}\0`), id])
  const entries = Array.from({ length: 500_000 }, (_, number) => entry(number))
  return writeObject(path, 'tree', Buffer.concat(entries))
}
