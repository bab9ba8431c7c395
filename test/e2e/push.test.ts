// Tags: each-store
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { startService } from '../support/service.ts'

test('a clone equals what was pushed', async () => {
  await using service = await startService()
  await using project = await createProject()
  await using folder = await temporaryFolder()
  await service.admin.post('/repos', { name: 'site' })
  await project.git('push', service.admin.remote('site'), 'HEAD:main')
  await git(folder.path, ['clone', '--quiet', service.admin.remote('site'), 'copy'])
  const { stdout } = await git(`${folder.path}/copy`, ['rev-parse', 'HEAD'])
  assert.equal(stdout, await project.git('rev-parse', 'HEAD'))
})
