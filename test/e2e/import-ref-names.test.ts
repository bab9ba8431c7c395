// Tags: each-store
import assert from 'node:assert/strict'
import { appendFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { startGitDaemon } from '../support/import-sources.ts'
import { untilTidy } from '../support/leftovers.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service

before(async () => {
  service = await startService()
})

after(() => service[Symbol.asyncDispose]())

test(
  'a ref whose name is not UTF-8 fails the import, in any position and from any source',
  exhaustive,
  async () => {
    await using folder = await temporaryFolder()
    await using daemon = await startGitDaemon(folder.path)
    for (const place of ['loose', 'packed']) {
      const path = await createSource(folder.path, place)
      const { stdout: tip } = await git(path, ['rev-parse', 'refs/heads/main'])
      const name = Buffer.from('caf\xe9', 'latin1')
      if (place === 'loose') {
        const file = Buffer.concat([Buffer.from(`${path}/refs/heads/`), name])
        await writeFile(file, `${tip}\n`)
      } else {
        await git(path, ['pack-refs', '--all'])
        const line = Buffer.concat([Buffer.from(`${tip} refs/heads/`), name, Buffer.from('\n')])
        await appendFile(join(path, 'packed-refs'), line)
      }
      for (const source of [path, `${daemon.url}/${place}.git`]) {
        const refused = await service.admin.post('/repos/import', { source, name: 'site' })
        assert.deepEqual([refused.status, refused.body.code], [422, 'import_failed'], refused.text)
        assert.match(refused.body.detail, /whose name is not UTF-8; rename it there first\.$/)
        assert.equal((await service.admin.get('/repos/site')).status, 404)
      }
      await untilTidy(service.dataDir)
    }
  },
)

test('text after the id in a ref file is ignored, as by git', async () => {
  await using folder = await temporaryFolder()
  const path = await createSource(folder.path, 'trailing')
  await git(path, ['branch', 'older'])
  await git(path, ['pack-refs', '--all'])
  const tree = (await git(path, ['rev-parse', 'HEAD^{tree}'])).stdout
  const newer = (await git(path, ['commit-tree', '-m', 'Newer', '-p', 'HEAD', tree])).stdout
  await writeFile(join(path, 'refs/heads/older'), `${newer} \tfrom elsewhere\n`)
  await writeFile(join(path, 'refs/heads/newer'), `${newer} x\n`)
  const imported = await service.admin.post('/repos/import', { source: path, name: 'site' })
  assert.equal(imported.status, 201, imported.text)
  const refs = (await git('/', ['ls-remote', service.admin.remote('site')])).stdout
  for (const name of ['older', 'newer']) assert.ok(refs.includes(`${newer}\trefs/heads/${name}`))
})

async function createSource(folder: string, name: string): Promise<string> {
  await using project = await createProject()
  const path = join(folder, `${name}.git`)
  await git('/', ['clone', '--quiet', '--mirror', project.path, path])
  return path
}
