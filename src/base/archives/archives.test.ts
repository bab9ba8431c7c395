import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { exhaustive } from '../../../test/support/exhaustive.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { without } from '../../../test/support/programs.ts'
import { type TarEntry, tarOf } from '../../../test/support/tar.ts'
import { ArchiveFormatError } from './archive-format-error.ts'
import { type ArchiveEntry, readTar } from './read-tar.ts'
import { unpackTar } from './unpack-tar.ts'
import { writeZip } from './write-zip.ts'

const execute = promisify(execFile)

/** An archive in chunks of a length. */
async function* toChunks(archive: Buffer, length = 64 * 1024): AsyncGenerator<Buffer> {
  for (let from = 0; from < archive.length; from += length)
    yield archive.subarray(from, from + length)
}

const sourceOf = (...entries: TarEntry[]) => toChunks(Buffer.concat([...tarOf(entries)]))

async function listOf(source: AsyncIterable<Buffer>) {
  const all: unknown[] = []
  for await (const { kind, path, content, isExecutable } of readTar(source)) {
    // Not read, in every other entry.
    const read = all.length % 2 === 0 ? await text(content) : undefined
    all.push([kind, path.join('/'), isExecutable, read])
  }
  return all
}

const isFormatError = (pattern: RegExp) => (error: unknown) =>
  error instanceof ArchiveFormatError && pattern.test(error.message)

test('tar archives of GNU tar, in each of its formats, are read in chunks of any length', async () => {
  await using folder = await temporaryFolder()
  const long = `${'long-'.repeat(40)}/${'ü'.repeat(120)}`
  await mkdir(join(folder.path, long), { recursive: true })
  await mkdir(join(folder.path, 'empty'))
  await writeFile(join(folder.path, long, 'run.sh'), 'echo\n', { mode: 0o755 })
  await writeFile(join(folder.path, 'block'), 'x'.repeat(512))
  await writeFile(join(folder.path, 'nothing'), '')
  const names = ['empty', 'block', 'nothing', `${long}/run.sh`]
  for (const format of ['gnu', 'pax', 'posix']) {
    const args = ['--create', `--format=${format}`, '--directory', folder.path, ...names]
    const { stdout } = await execute('tar', args, { encoding: 'buffer' })
    for (const length of [1, 511, 100_000])
      assert.deepEqual(
        await listOf(toChunks(stdout, length)),
        [
          ['folder', 'empty', true, ''],
          ['file', 'block', false, undefined],
          ['file', 'nothing', false, ''],
          ['file', `${long}/run.sh`, true, undefined],
        ],
        `${format}, ${length}`,
      )
  }
})

test('what could be written outside of a folder, or is no file, is not read', async () => {
  const names = ['../a', 'a/../../b', '/etc/passwd', 'a\\..\\..\\b', '\\a', 'C:\\a', 'c:a', '..']
  for (const name of names)
    await assert.rejects(listOf(sourceOf({ name })), isFormatError(/leads out of its folder/), name)
  for (const type of ['1', '2', '3', '6'] as const) {
    const entry: TarEntry = { name: 'a', type, link: '/etc/passwd' }
    await assert.rejects(listOf(sourceOf(entry)), isFormatError(/a is a link or another/), type)
  }
  const inner = sourceOf({ name: './.' }, { name: './a//b' }, { name: 'a/.../b..c' })
  assert.deepEqual(await listOf(inner), [
    ['file', 'a/b', false, ''],
    ['file', 'a/.../b..c', false, undefined],
  ])
})

test('damaged and endless archives end with an error', async () => {
  const whole = Buffer.concat([...tarOf([{ name: 'a', content: 'x'.repeat(1000) }])])
  for (const length of [100, 512, 513, 1500])
    await assert.rejects(
      listOf(toChunks(whole.subarray(0, length))),
      isFormatError(/ends before it is complete/),
      String(length),
    )
  await assert.rejects(listOf(toChunks(randomBytes(2048))), isFormatError(/is no tar archive/))
  const [header = Buffer.alloc(0)] = tarOf([{ name: 'a' }])
  for (const at of [0, 124, 156]) {
    const damaged = Buffer.from(header)
    damaged[at] = 0x39
    await assert.rejects(listOf(toChunks(damaged)), isFormatError(/is no tar archive/), String(at))
  }
  // A name that would need a gigabyte of memory, as GNU tar and as pax say it.
  for (const type of ['L', 'x', 'g'])
    await assert.rejects(
      listOf(sourceOf({ name: 'a', type: type as '0', size: 1024 ** 3 })),
      isFormatError(/a name that is too long/),
    )
  for (const content of ['5 path=a\n', '99 path=a\n', '9 path=../', 'path=a\n', '0 a=b\n'])
    await assert.rejects(
      listOf(sourceOf({ name: 'a', type: 'x' as '0', content })),
      isFormatError(/is no tar archive/),
      content,
    )
  const invalid = Buffer.from(header)
  invalid[0] = 0xff
  await assert.rejects(listOf(toChunks(withSum(invalid))), isFormatError(/not UTF-8/))
})

/** A header with the checksum that fits. */
function withSum(header: Buffer): Buffer {
  header.write('        ', 148)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return header
}

test('a zip archive has the files, their modes and times', {
  skip: without('python'),
}, async () => {
  await using folder = await temporaryFolder()
  const noise = randomBytes(300_000).toString('latin1')
  const entries: TarEntry[] = [
    { name: 'empty/', type: '5', mode: 0o755 },
    { name: 'ü/run.sh', content: 'echo\n'.repeat(1000), mode: 0o755 },
    { name: 'noise', content: noise },
    { name: 'nothing' },
  ]
  const file = join(folder.path, 'a.zip')
  await writeFile(file, writeZip(readTar(sourceOf(...entries))))
  const script = `
import json, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
print(json.dumps([[i.filename, i.file_size, oct(i.external_attr >> 16), i.date_time[0]] for i in archive.infolist()]))
archive.extractall(sys.argv[2])`
  const { stdout } = await execute('python3', ['-c', script, file, folder.path])
  assert.deepEqual(JSON.parse(stdout), [
    ['empty/', 0, '0o40755', 1980],
    ['ü/run.sh', 5000, '0o100755', 1980],
    ['noise', Buffer.byteLength(noise), '0o100644', 1980],
    ['nothing', 0, '0o100644', 1980],
  ])
  assert.equal(await readFile(join(folder.path, 'noise'), 'utf8'), noise)
})

/** Entries as if they were read from an archive, with a size that may be wrong. */
async function* entriesOf(
  count: number,
  { size = 0, name = (index: number) => String(index) } = {},
) {
  async function* content() {
    yield Buffer.from('content')
  }
  for (let index = 0; index < count; index++) {
    const entry: ArchiveEntry = {
      ...{ kind: 'file', path: [name(index)], size, isExecutable: false, modifiedAt: 1.7e9 },
      content: content(),
    }
    yield entry
  }
}

test('large files and many files make a zip archive with Zip64', {
  ...exhaustive,
  skip: without('python'),
}, async () => {
  await using folder = await temporaryFolder()
  const script = `
import json, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
all = archive.infolist()
print(json.dumps([len(all), archive.read(all[-1]).decode(), all[0].date_time]))`
  for (const [count, size] of [
    [2, 4 * 1024 ** 3],
    [66_000, 7],
  ] as const) {
    const file = join(folder.path, `${count}.zip`)
    await writeFile(file, writeZip(entriesOf(count, { size })))
    const { stdout } = await execute('python3', ['-c', script, file])
    assert.deepEqual(JSON.parse(stdout), [count, 'content', [2023, 11, 14, 22, 13, 20]])
  }
})

test('a zip archive whose list would need much memory is not made', async () => {
  const long = 'x'.repeat(60_000)
  const endless = entriesOf(1000, { name: (index) => `${long}${index}` })
  await assert.rejects(
    async () => {
      for await (const _ of writeZip(endless));
    },
    isFormatError(/too many files/),
  )
})

test('an archive is unpacked into new files, with their modes', async () => {
  await using folder = await temporaryFolder()
  const target = join(folder.path, 'new', 'folder')
  const archive = sourceOf(
    { name: 'a/b/run.sh', content: 'echo\n', mode: 0o4777 },
    { name: 'a/', type: '5' },
    { name: 'c', content: 'c' },
  )
  assert.deepEqual(await unpackTar(archive, target), { files: 2, bytes: 6 })
  assert.equal(await readFile(join(target, 'a/b/run.sh'), 'utf8'), 'echo\n')
  const { mode } = await stat(join(target, 'a/b/run.sh'))
  assert.equal(mode & 0o7100, 0o100)
  assert.equal((await stat(join(target, 'c'))).mode & 0o111, 0)
  await assert.rejects(unpackTar(sourceOf({ name: 'c' }), target), isFormatError(/c exists/))
})

test('an archive that is unpacked follows no link, and makes nothing of Git', async () => {
  await using folder = await temporaryFolder()
  const [target, outside] = [join(folder.path, 'target'), join(folder.path, 'outside')]
  await Promise.all([mkdir(target), mkdir(outside)])
  await symlink(outside, join(target, 'link'))
  await symlink(join(outside, 'file'), join(target, 'file'))
  await assert.rejects(unpackTar(sourceOf({ name: 'link/a' }), target), isFormatError(/no folder/))
  await assert.rejects(unpackTar(sourceOf({ name: 'link/' }), target), isFormatError(/no folder/))
  await assert.rejects(unpackTar(sourceOf({ name: 'file' }), target), isFormatError(/exists/))
  const names = ['.git/hooks/a', 'a/.GIT/config', '.g\u200cit/a', 'git~1/a', '.git']
  for (const name of names)
    await assert.rejects(unpackTar(sourceOf({ name }), target), isFormatError(/Git repository/))
  // Half of a file is not left behind.
  const half = Buffer.concat([...tarOf([{ name: 'half', content: 'x'.repeat(1000) }])])
  await assert.rejects(unpackTar(toChunks(half.subarray(0, 800)), target), isFormatError(/ends/))
  assert.deepEqual(await readdir(outside), [])
  assert.deepEqual((await readdir(target)).sort(), ['file', 'link'])
})
