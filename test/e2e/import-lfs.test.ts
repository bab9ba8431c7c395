import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type ClientHome, createClientHome, loggedIn } from '../support/client-home.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, type Project, temporaryFolder } from '../support/git.ts'
import { logIn } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'

const skip = without('git-lfs')

let service: Service
let home: ClientHome
let source: Project
/** A clone without LFS objects. */
let clone: string
let folder: Awaited<ReturnType<typeof temporaryFolder>>

before(async () => {
  if (skip) return
  service = await startService()
  home = await loggedIn(service)
  source = await createProject()
  await source.git('lfs', 'install', '--local')
  await source.git('lfs', 'track', '*.bin')
  const files = { 'a.bin': 'one', 'same.bin': 'one', 'b.bin': 'two', 'old.bin': 'in the history' }
  for (const [name, content] of Object.entries(files))
    await writeFile(join(source.path, name), content)
  await source.git('add', '.')
  await source.git('commit', '--quiet', '--message', 'Files')
  const pointer = await source.git('cat-file', 'blob', 'HEAD:a.bin')
  assert.match(pointer, /^version https:\/\/git-lfs/)
  await source.git('rm', '--quiet', 'old.bin')
  // Pointers to git-lfs, too, of which one names an object of no bytes, which is nowhere.
  const another = pointer.replace(/sha256:../, 'sha256:00')
  await writeFile(join(source.path, 'crlf.txt'), another.replaceAll('\n', '\r\n'))
  await writeFile(
    join(source.path, 'spaced.txt'),
    `\n\n${pointer.replace(/size \d+/, 'size 0')}\n\n`,
  )
  // Text about a pointer is none.
  await writeFile(join(source.path, 'about.md'), `A pointer:\n${pointer}\n`)
  await writeFile(join(source.path, 'long.md'), `${pointer}\n${'x'.repeat(1024)}`)
  await source.git('add', '.')
  await source.git('commit', '--quiet', '--message', 'About')
  folder = await temporaryFolder()
  clone = join(folder.path, 'clone.git')
  await source.git('clone', '--quiet', '--bare', '.', clone)
})

after(async () => {
  if (skip) return
  await source[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
  await home[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const note = /^svc: Not imported: 4 Git LFS objects, .* Push them from a clone of the source/m

test('an import says how many Git LFS objects it left behind', { skip }, async () => {
  const { status, body } = await service.admin.post('/repos/import', {
    source: clone,
    name: 'with-lfs',
  })
  assert.deepEqual([status, body.missingLfsObjects], [201, 4])
  assert.equal((await service.admin.get('/repos/with-lfs')).body.missingLfsObjects, 4)
  await service.admin.delete('/repos/with-lfs')
  const restored = await service.admin.post(`/deleted-repos/${body.id}/restore`, {})
  assert.deepEqual([restored.status, restored.body.missingLfsObjects], [200, 4])
  const remote = await home.run(['repos', 'import', clone, 'by-client'])
  assert.match(remote.err, note)
  await using other = await createClientHome()
  const local = await other.run(['repos', 'import', clone, 'beside', '--json'], {
    env: { SVC_DATA_DIR: service.dataDir, SVC_FREE_SPACE_MIN: '0' },
  })
  assert.match(local.err, note)
  assert.equal(JSON.parse(local.out).missingLfsObjects, 4)
  const pages = await logIn(service.url, service.adminToken)
  assert.match((await pages.get('/r/with-lfs')).text, /4 Git LFS objects were not imported/)
})

test('objects that are pushed later are missing no more', { ...exhaustive, skip }, async () => {
  const { admin } = service
  const { body } = await admin.post('/repos/import', { source: clone, name: 'completed' })
  assert.equal(body.missingLfsObjects, 4)
  await source.git('remote', 'add', 'completed', admin.remote('completed'))
  await source.git('-c', 'lfs.allowincompletepush=true', 'lfs', 'push', '--all', 'completed')
  // One pointer names an object that exists nowhere.
  await until('they are counted', async () => {
    return (await admin.get('/repos/completed')).body.missingLfsObjects === 1
  })
})

test('an import of a repository without Git LFS says nothing of it', { skip }, async () => {
  await using plain = await createProject()
  const imported = await home.run(['repos', 'import', plain.path, 'plain', '--json'])
  assert.doesNotMatch(imported.err, /LFS/)
  assert.equal(JSON.parse(imported.out).missingLfsObjects, 0)
  const pages = await logIn(service.url, service.adminToken)
  assert.doesNotMatch((await pages.get('/r/plain')).text, /LFS/)
})
