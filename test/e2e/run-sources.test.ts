import assert from 'node:assert/strict'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, type Project } from '../support/git.ts'
import { assertFrugal } from '../support/memory.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const folder = '.svc/workflows'

let service: Service
let project: Project

before(async () => {
  service = await startService()
  project = await createProject()
  await service.admin.post('/repos', { name: 'site' })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

/** Commits and pushes what is in the project now, and asks for a run of a file; the answer. */
async function ask(file: string) {
  await project.git('commit', '--quiet', '--allow-empty', '-m', 'Change [skip ci]')
  await project.git('push', '--quiet', '--force', service.admin.remote('site'), 'HEAD:main')
  return service.admin.post('/repos/site/workflows', { files: [file] })
}

async function write(path: string, content: string): Promise<void> {
  await mkdir(dirname(join(project.path, path)), { recursive: true })
  await writeFile(join(project.path, path), content)
}

test('a symbolic link, a submodule and a folder are not workflow files', async () => {
  await write('outside.yml', 'steps: [{ run: true }]')
  await write(`${folder}/good.yml`, 'steps: [{ run: true }]')
  await symlink('../../outside.yml', join(project.path, folder, 'link.yml'))
  await symlink('/etc', join(project.path, folder, 'etc'))
  await write(`${folder}/folder.yml/x.txt`, 'x')
  await project.git('add', '.')
  const head = await project.git('rev-parse', 'HEAD')
  const module = `160000,${head},${folder}/module.yml`
  await project.git('update-index', '--add', '--cacheinfo', module)
  for (const [file, fault] of [
    ['link.yml', /symbolic link/],
    ['module.yml', /submodule/],
    ['folder.yml', /folder/],
  ] as const) {
    const { status, body } = await ask(file)
    assert.deepEqual([status, body.code], [422, 'workflow_invalid'], file)
    assert.match(body.detail, fault)
  }
  // Nothing behind a link, or inside of a submodule, is in the commit.
  for (const file of ['etc/passwd.yml', 'link.yml/x.yml', 'module.yml/x.yml'])
    assert.equal((await ask(file)).body.code, 'workflow_not_found', file)
})

test('a workflows folder that is a symbolic link has no workflows', async () => {
  await using other = await createProject()
  await symlink('.', join(other.path, '.svc'))
  await mkdir(join(other.path, 'workflows'))
  await writeFile(join(other.path, 'workflows', 'ci.yml'), 'steps: [{ run: true }]')
  await other.git('add', '.')
  await other.git('commit', '--quiet', '-m', 'Link')
  await service.admin.post('/repos', { name: 'linked' })
  await other.git('push', '--quiet', service.admin.remote('linked'), 'main')
  for (const body of [{}, { files: ['ci.yml'] }]) {
    const answer = await service.admin.post('/repos/linked/workflows', body)
    assert.deepEqual([answer.status, answer.body.code], [422, 'workflow_not_found'])
  }
})

test('an executable file is a workflow file', async () => {
  await write(`${folder}/tool.yml`, 'steps: [{ run: true }]')
  await project.git('add', '.')
  await project.git('update-index', '--chmod=+x', `${folder}/tool.yml`)
  const { status, body } = await ask('tool.yml')
  assert.equal(status, 202)
  const held = await mustClaim(service.admin)
  assert.equal(held.plan.runId, body.id)
  await held.report(...wholeRun())
})

test('a file that is not text, not YAML, or has a duplicate key is reported', async () => {
  for (const [content, fault] of [
    [Buffer.from([0x6e, 0x3a, 0xff, 0xfe]), /is not UTF-8/],
    ['steps: [', /ci\.yml:1:\d+: /],
    ['name: a\nname: b\nsteps: [{ run: true }]', /ci\.yml:2:1: /],
    ['', /ci\.yml:1:1: /],
    ['- steps', /ci\.yml:1:1: /],
  ] as const) {
    await write(`${folder}/ci.yml`, '')
    await writeFile(join(project.path, folder, 'ci.yml'), content)
    await project.git('add', '.')
    const { status, body } = await ask('ci.yml')
    assert.deepEqual([status, body.code], [422, 'workflow_invalid'], String(content))
    assert.match(body.detail, fault)
  }
})

test('YAML bombs and very large files cost the server little', exhaustive, async () => {
  await using server = await startService()
  const { admin } = server
  await pushFiles(admin, 'bombs', oneStep('true'))
  const lines = Array.from({ length: 30 }, (_, n) => {
    const names = Array.from({ length: 10 }, () => (n === 0 ? 'x' : `*a${n - 1}`))
    return `a${n}: &a${n} [${names.join(', ')}]`
  })
  const depth = 100_000
  const bombs = {
    laughs: `${lines.join('\n')}\nsteps: *a29\n`,
    deep: `steps: ${'['.repeat(depth)}${']'.repeat(depth)}\n`,
    braces: `steps: ${'{a: '.repeat(50_000)}`,
    long: `steps:\n  - run: |\n${'      echo\n'.repeat(900_000)}`,
    keys: Array.from({ length: 20_000 }, (_, n) => `k${n}: 1`).join('\n'),
  }
  const files = Object.entries(bombs).map(([name, text]) => [`${folder}/${name}.yml`, text])
  await pushFiles(admin, 'bombs', Object.fromEntries(files), { message: 'Bombs [skip ci]' })
  // The thread that checks files is there from now on.
  assert.equal((await admin.post('/repos/bombs/workflows', { files: ['ci.yml'] })).status, 202)
  await assertFrugal(
    server,
    async () => {
      for (const name of Object.keys(bombs)) {
        const body = { files: [`${name}.yml`] }
        const answer = await admin.post('/repos/bombs/workflows', body)
        assert.deepEqual([answer.status, answer.body.code], [422, 'workflow_invalid'], name)
      }
    },
    100 * 1024 * 1024,
  )
  assert.equal((await admin.get('/repos/bombs/workflows')).body.length, 1)
})
