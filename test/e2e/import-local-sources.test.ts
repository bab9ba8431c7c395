// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFile,
  chmod,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { git, temporaryFolder } from '../support/git.ts'
import { createSource } from '../support/hostile-objects.ts'
import { type ImportSite, startImportSite } from '../support/import-site.ts'
import { launcher } from '../support/service.ts'

const execute = promisify(execFile)

type Case = {
  /** Ends the sentence "a source … is refused". */
  what: string
  detail: RegExp
  spoil: (path: string) => Promise<unknown>
  isPacked?: boolean
}

let site: ImportSite

const withoutDevices = process.getuid?.() !== 0 && 'only root makes devices and other users'

const linked = /"[^"]*" in the source is a symbolic link or no plain file/
const damaged = /source is damaged/
const borrowed = /borrows objects/
const partial = /partial clone/
const missing = 'deadbeef'.repeat(5)

async function linkAway(path: string, part: string): Promise<void> {
  const away = site.path('away')
  await rename(join(path, part), away)
  await symlink(away, join(path, part))
}

async function makePipe(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true })
  await execute('mkfifo', [path])
}

async function configure(path: string, ...settings: [name: string, value: string][]) {
  for (const [name, value] of settings) await git(path, ['config', name, value])
}

async function packIn(path: string, type: 'pack' | 'idx'): Promise<string> {
  const folder = join(path, 'objects/pack')
  const name = (await readdir(folder)).find((one) => one.endsWith(`.${type}`))
  assert.ok(name)
  await chmod(join(folder, name), 0o600)
  return join(folder, name)
}

async function someObjectFolder(path: string): Promise<string> {
  const name = (await readdir(join(path, 'objects'))).find((one) => one.length === 2)
  return join('objects', name ?? '')
}

async function someObject(path: string): Promise<string> {
  const folder = await someObjectFolder(path)
  const [name = ''] = await readdir(join(path, folder))
  return join(folder, name)
}

const cases: Case[] = [
  // What is no plain folder or file.
  {
    what: 'whose HEAD is a symbolic link',
    detail: linked,
    spoil: (path) => linkAway(path, 'HEAD'),
  },
  {
    what: 'whose refs/ is a symbolic link',
    detail: linked,
    spoil: (path) => linkAway(path, 'refs'),
  },
  {
    what: 'with a symbolic link as a branch',
    detail: linked,
    spoil: (path) => symlink('/etc/passwd', join(path, 'refs/heads/x')),
  },
  {
    what: 'with a symbolic link as a folder of branches',
    detail: linked,
    spoil: (path) => symlink('/etc', join(path, 'refs/heads/x')),
  },
  {
    what: 'whose packed-refs is a symbolic link',
    detail: linked,
    spoil: async (path) => {
      await git(path, ['pack-refs', '--all'])
      await linkAway(path, 'packed-refs')
    },
  },
  {
    what: 'whose config is a symbolic link',
    detail: linked,
    spoil: (path) => linkAway(path, 'config'),
  },
  {
    what: 'whose objects/ is a symbolic link',
    detail: linked,
    spoil: (path) => linkAway(path, 'objects'),
  },
  {
    what: 'whose objects/pack is a symbolic link',
    detail: linked,
    isPacked: true,
    spoil: (path) => linkAway(path, 'objects/pack'),
  },
  {
    what: 'whose objects/info is a symbolic link',
    detail: linked,
    spoil: (path) => linkAway(path, 'objects/info'),
  },
  {
    what: 'with a symbolic link as a folder of objects',
    detail: linked,
    spoil: async (path) => linkAway(path, await someObjectFolder(path)),
  },
  {
    what: 'with a symbolic link as an object',
    detail: linked,
    spoil: async (path) => linkAway(path, await someObject(path)),
  },
  {
    what: 'with a symbolic link as a pack',
    detail: linked,
    isPacked: true,
    spoil: async (path) => linkAway(path, (await packIn(path, 'pack')).slice(path.length + 1)),
  },
  {
    what: 'with a pipe as its HEAD',
    detail: linked,
    spoil: (path) => makePipe(join(path, 'HEAD')),
  },
  {
    what: 'with a pipe as its config',
    detail: linked,
    spoil: (path) => makePipe(join(path, 'config')),
  },
  {
    what: 'with a pipe as its packed-refs',
    detail: linked,
    spoil: (path) => makePipe(join(path, 'packed-refs')),
  },
  {
    what: 'with a pipe as its shallow file',
    detail: linked,
    spoil: (path) => makePipe(join(path, 'shallow')),
  },
  {
    what: 'with a pipe as its commondir',
    detail: linked,
    spoil: (path) => makePipe(join(path, 'commondir')),
  },
  {
    what: 'with a pipe as a branch',
    detail: linked,
    spoil: (path) => makePipe(join(path, 'refs/heads/x')),
  },
  {
    what: 'with a pipe as an object',
    detail: linked,
    spoil: async (path) => makePipe(join(path, await someObject(path))),
  },
  {
    what: 'with a pipe as a pack',
    detail: linked,
    isPacked: true,
    spoil: async (path) => makePipe(await packIn(path, 'pack')),
  },
  {
    what: 'with a pipe as its alternates',
    detail: linked,
    spoil: async (path) => {
      await mkdir(join(path, 'objects/info'), { recursive: true })
      await makePipe(join(path, 'objects/info/alternates'))
    },
  },
  {
    what: 'with a socket as an object',
    detail: linked,
    spoil: async (path) => {
      const object = join(path, await someObject(path))
      await rm(object)
      const server = createServer().listen(object)
      await once(server, 'listening')
      // The file would go with the server.
      server.unref()
    },
  },
  {
    what: 'with a folder as its HEAD',
    detail: linked,
    spoil: async (path) => {
      await rm(join(path, 'HEAD'))
      await mkdir(join(path, 'HEAD'))
    },
  },

  // Parts of repositories.
  {
    what: 'with alternates',
    detail: borrowed,
    spoil: async (path) => {
      await mkdir(join(path, 'objects/info'), { recursive: true })
      await writeFile(join(path, 'objects/info/alternates'), '/etc\n')
    },
  },
  {
    what: 'with alternates of the web',
    detail: borrowed,
    spoil: async (path) => {
      await mkdir(join(path, 'objects/info'), { recursive: true })
      await writeFile(join(path, 'objects/info/http-alternates'), 'http://127.0.0.1:1/\n')
    },
  },
  {
    what: 'with a commondir',
    detail: /is a worktree/,
    spoil: (path) => writeFile(join(path, 'commondir'), '../..\n'),
  },
  {
    what: 'that is shallow',
    detail: /is a shallow clone/,
    spoil: async (path) => {
      const { stdout } = await git(path, ['rev-parse', 'main'])
      await writeFile(join(path, 'shallow'), `${stdout}\n`)
    },
  },
  {
    what: 'with a pack of a promisor',
    detail: partial,
    isPacked: true,
    spoil: async (path) => writeFile((await packIn(path, 'pack')).replace(/pack$/, 'promisor'), ''),
  },
  {
    what: 'whose config makes it a partial clone',
    detail: partial,
    spoil: (path) => configure(path, ['extensions.partialClone', 'origin']),
  },
  {
    what: 'with a remote that promises objects',
    detail: partial,
    spoil: (path) => configure(path, ['remote.a.b.promisor', 'true']),
  },
  {
    what: 'with a filter for a remote',
    detail: partial,
    spoil: (path) => configure(path, ['remote.x.partialCloneFilter', 'blob:none']),
  },
  {
    what: 'of an object format that is not known',
    detail: /object format that this server does not know/,
    spoil: (path) =>
      configure(path, ['core.repositoryFormatVersion', '1'], ['extensions.objectFormat', 'sha512']),
  },
  {
    what: 'that says that it keeps its refs as a reftable, and has none',
    detail: /its refs cannot be read/,
    spoil: (path) =>
      configure(path, ['core.repositoryFormatVersion', '1'], ['extensions.refStorage', 'reftable']),
  },
  {
    what: 'that keeps its refs in a way that is not known',
    detail: /keeps its refs as "table:\/\/x"/,
    spoil: (path) => configure(path, ['extensions.refStorage', 'table://x']),
  },

  // Settings.
  {
    what: 'whose config is garbage',
    detail: /configuration of the source cannot be read/,
    spoil: (path) => writeFile(join(path, 'config'), '[core\n\0\xff]]]"'),
  },
  {
    what: 'whose config is of 100 MiB',
    detail: /configuration of the source is too large/,
    spoil: (path) => truncate(join(path, 'config'), 100 * 1024 ** 2),
  },

  // HEAD.
  {
    what: 'whose HEAD leads out of it',
    detail: /HEAD of the source is "\.\.\/\.\.\/etc\/passwd", which is not a valid ref name/,
    spoil: (path) => writeFile(join(path, 'HEAD'), 'ref: ../../etc/passwd\n'),
  },
  {
    what: 'whose HEAD leads out of its branches',
    detail: /HEAD of the source is "refs\/heads\/\.\.\/\.\.\/x", which is not a valid ref name/,
    spoil: (path) => writeFile(join(path, 'HEAD'), 'ref: refs/heads/../../x\n'),
  },
  {
    what: 'whose HEAD has two lines',
    detail: /HEAD of the source is .*, which is not a valid ref name/,
    spoil: (path) => writeFile(join(path, 'HEAD'), 'ref: refs/heads/main\nrefs/heads/x\n'),
  },
  {
    what: 'whose HEAD is empty',
    detail: /HEAD of the source is damaged/,
    spoil: (path) => writeFile(join(path, 'HEAD'), ''),
  },
  {
    what: 'whose HEAD is garbage',
    detail: /HEAD of the source is damaged/,
    spoil: (path) => writeFile(join(path, 'HEAD'), Buffer.alloc(100_000, 0xfe)),
  },

  // Refs.
  {
    what: 'with a branch whose file is garbage',
    detail: /its ref "refs\/heads\/x" is garbage/,
    spoil: (path) => writeFile(join(path, 'refs/heads/x'), 'garbage\n'),
  },
  {
    what: 'with a branch whose file is empty',
    detail: /its ref "refs\/heads\/x" is garbage/,
    spoil: (path) => writeFile(join(path, 'refs/heads/x'), ''),
  },
  {
    what: 'with a branch whose file is large',
    detail: /its ref "refs\/heads\/x" is garbage/,
    spoil: async (path) => {
      await writeFile(join(path, 'refs/heads/x'), '')
      await truncate(join(path, 'refs/heads/x'), 1024 ** 3)
    },
  },
  {
    what: 'with a branch of an object that is not there',
    detail: damaged,
    spoil: (path) => writeFile(join(path, 'refs/heads/x'), `${missing}\n`),
  },
  {
    what: 'with a packed branch of an object that is not there',
    detail: damaged,
    spoil: async (path) => {
      await git(path, ['pack-refs', '--all'])
      await appendFile(join(path, 'packed-refs'), `${missing} refs/heads/x\n`)
    },
  },
  {
    what: 'with a branch that stands for a pipe outside of it',
    detail: /its ref "refs\/heads\/x" is garbage/,
    spoil: async (path) => {
      const pipe = site.path('pipe')
      await makePipe(pipe)
      await writeFile(join(path, 'refs/heads/x'), `ref: ../../../../../../../..${pipe}\n`)
    },
  },
  {
    what: 'with a branch that stands for an endless device',
    detail: /its ref "refs\/heads\/x" is garbage/,
    spoil: (path) =>
      writeFile(join(path, 'refs/heads/x'), 'ref: refs/../../../../../../../../../dev/zero\n'),
  },
  {
    what: 'with a branch that is a folder of another one',
    // Git 2.55 ends with a BUG instead of a list of refs.
    detail: /"refs\/heads\/main".*"refs\/heads\/main\/x"|refs that cannot be stored|is damaged/,
    spoil: async (path) => {
      await git(path, ['pack-refs', '--all'])
      const { stdout } = await git(path, ['rev-parse', 'main'])
      await appendFile(join(path, 'packed-refs'), `${stdout} refs/heads/main/x\n`)
    },
  },
  {
    what: 'whose packed-refs is garbage',
    detail: damaged,
    spoil: (path) => writeFile(join(path, 'packed-refs'), 'garbage\n'),
  },
  {
    what: 'whose packed-refs is endless',
    detail: /list of refs in the source is too large/,
    spoil: async (path) => {
      await writeFile(join(path, 'packed-refs'), '')
      await truncate(join(path, 'packed-refs'), 1024 ** 3)
    },
  },

  // Objects.
  {
    what: 'with an object that is cut off',
    detail: damaged,
    spoil: async (path) => {
      const object = join(path, await someObject(path))
      await chmod(object, 0o600)
      await truncate(object, 10)
    },
  },
  {
    what: 'with an object that is garbage',
    detail: damaged,
    spoil: async (path) => {
      const object = join(path, await someObject(path))
      await chmod(object, 0o600)
      await writeFile(object, 'garbage')
    },
  },
  {
    what: 'without one of its files',
    detail: damaged,
    spoil: async (path) => {
      const { stdout } = await git(path, ['rev-parse', 'main:readme.txt'])
      await rm(join(path, 'objects', stdout.slice(0, 2), stdout.slice(2)))
    },
  },
  {
    what: 'whose pack is cut off',
    detail: damaged,
    isPacked: true,
    spoil: async (path) => truncate(await packIn(path, 'pack'), 100),
  },
  {
    what: 'whose pack is corrupt',
    detail: damaged,
    isPacked: true,
    spoil: async (path) => {
      const pack = await packIn(path, 'pack')
      const bytes = await readFile(pack)
      bytes.fill(0xaa, 14, bytes.length - 20)
      await writeFile(pack, bytes)
    },
  },
  {
    what: 'whose pack has a wrong index',
    detail: damaged,
    isPacked: true,
    spoil: async (path) => {
      const index = await packIn(path, 'idx')
      const bytes = await readFile(index)
      // The names of its objects: gitformat-pack(5), version 2.
      bytes.fill(0x11, 8 + 1024, 8 + 1024 + 60)
      await writeFile(index, bytes)
    },
  },
  {
    what: 'whose pack has an index of garbage',
    detail: damaged,
    isPacked: true,
    spoil: async (path) => writeFile(await packIn(path, 'idx'), 'garbage'),
  },
]

describe('hostile folders as sources of imports', () => {
  before(async () => {
    site = await startImportSite()
  })

  after(() => site[Symbol.asyncDispose]())

  for (const { what, detail, spoil, isPacked = false } of cases) {
    test(`a source ${what} is rejected, and nothing is left`, async () => {
      const path = await createSource(site.path(), { isPacked })
      await spoil(path)
      await site.refused(path, { detail })
    })
  }

  test('a device in place of an object is rejected', { skip: withoutDevices }, async () => {
    const path = await createSource(site.path())
    const object = join(path, await someObject(path))
    await rm(object)
    await execute('mknod', [object, 'c', '1', '5'])
    await site.refused(path, { detail: linked })
  })

  test('an unreadable file is rejected by name', { skip: withoutDevices }, async () => {
    // Root can read everything, so the service runs as another user.
    await using folder = await temporaryFolder()
    const program = join(folder.path, 'as-other-user')
    const dataDir = join(folder.path, 'data')
    await mkdir(dataDir)
    await execute('chown', ['-R', '65534:65534', folder.path])
    const words = 'setpriv --reuid=65534 --regid=65534 --clear-groups'
    await writeFile(program, `#!/bin/sh\nexec ${words} '${launcher}' "$@"\n`, { mode: 0o755 })
    await using site = await startImportSite({ dataDir, program })
    await chmod(site.folder, 0o755)
    const path = await createSource(site.path())
    await site.imported(path)
    const refused = async (part: string, detail: RegExp) => {
      await chmod(join(path, part), 0)
      await site.refused(path, { detail })
      await chmod(join(path, part), 0o755)
    }
    for (const part of ['HEAD', 'config', 'refs/heads', 'objects', await someObject(path)]) {
      await refused(part, /"[^"]+" in the source is not for this server to read/)
    }
    await refused('', /may not read this path/)
  })
})
