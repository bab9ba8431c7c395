// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { lstat, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { createProject, temporaryFolder } from '../support/git.ts'
import { packInto, root } from '../support/packed.ts'
import { without } from '../support/programs.ts'
import { startService } from '../support/service.ts'
import { logOf, pushFiles, runToEnd } from '../support/workflow-site.ts'

const execute = promisify(execFile)
const workflow = `
on: workflow_dispatch
jobs:
  sum:
    runs-on: ubuntu-latest
    steps:
      - run: echo "\${{ format('{0} of {1}', github.job, 'all') }} is $((40 + 2))"
`

test('the built, packed and installed package works', async () => {
  await using folder = await temporaryFolder()
  await using project = await createProject()
  const { archive, names } = await packInto(folder.path)
  assert.ok(
    names.every((name) => /^(bin|deploy|dist|docs)\/|^(README|LICENSE|package)/.test(name)),
    names.join(),
  )
  assert.ok(!names.some((name) => name.includes('.test.')))
  const install = ['install', '--global', '--prefix', folder.path, '--no-audit', '--no-fund']
  await execute('npm', [...install, archive], { cwd: folder.path })
  const svc = join(folder.path, 'bin', 'svc')
  assert.match((await execute(svc, ['--version'])).stdout, /^\d+\.\d+\.\d+\n$/)
  assert.match(await readFile(join(folder.path, 'share/man/man1/svc.1'), 'utf8'), /^\.TH SVC 1 /m)
  const installed = join(folder.path, 'lib/node_modules/svc')
  await assertLinks(installed, names)
  await using service = await startService({ program: svc, env: { SVC_RUNNER: 'on' } })
  await service.admin.post('/repos', { name: 'site' })
  await service.admin.put('/repos/site/protections/branches/main')
  await project.git('push', '--quiet', service.admin.remote('site'), 'main')
  const stranger = await service.client({ username: 'grace' })
  await service.admin.post('/repos/site/collaborators', { username: 'grace' })
  await assert.rejects(project.git('push', stranger.remote('site'), ':main'), /protected/)

  // The thread that checks files, the runner and what it needs for the sandbox are programs of their own.
  await pushFiles(service.admin, 'jobs', { '.svc/workflows/sum.yml': workflow })
  const ran = await runToEnd(service.admin, 'jobs')
  assert.equal(ran.conclusion, 'success', ran.fault)
  assert.match(ran.isolation, without('bubblewrap') ? /^none: / : /^bubblewrap: /)
  assert.match(await logOf(service.admin, 'jobs', ran.id), /^sum of all is 42$/m)
  await mkdir(join(project.path, '.svc', 'workflows'), { recursive: true })
  const file = join(project.path, '.svc', 'workflows', 'sum.yml')
  await writeFile(file, workflow)
  const local = await execute(svc, ['run', '--event', 'workflow_dispatch', file], {
    cwd: project.path,
  })
  assert.match(local.stdout, /^sum of all is 42$/m)
})

test('a client is installed as the documentation says, without the Node of the package', async () => {
  await using folder = await temporaryFolder()
  await packInto(folder.path)
  const page = await readFile(join(root, 'docs/command-line.md'), 'utf8')
  const [, commands = ''] = /^```sh\n(npm install [^`]*)```/m.exec(page) ?? []
  const env = { ...process.env, HOME: folder.path }
  await execute('sh', ['-ec', `mkdir -p ~/.local/bin; ${commands}`], { cwd: folder.path, env })
  const { stdout } = await execute(join(folder.path, '.local/bin/svc'), ['--version'])
  assert.match(stdout, /^\d+\.\d+\.\d+\n$/)
  const installed = join(folder.path, '.local/share/svc')
  const names = await readdir(installed, { recursive: true })
  assert.deepEqual(
    names.filter((name) => /node-linux/.test(name)),
    [],
  )
  const sizes = await Promise.all(
    names.map(async (name) => (await lstat(join(installed, name))).size),
  )
  assert.ok(sizes.reduce((sum, size) => sum + size, 0) < 12e6)
})

/** Every file that a page of the package links is in the package, apart from the guide for contributors. */
async function assertLinks(folder: string, names: string[]): Promise<void> {
  for (const page of names.filter((name) => name.endsWith('.md'))) {
    const text = await readFile(join(folder, page), 'utf8')
    for (const [, link = ''] of text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
      const target = join(page, '..', link)
      const isThere = names.some((name) => name === target || name.startsWith(`${target}/`))
      assert.ok(isThere || target === 'CONTRIBUTING.md', `${page} links ${link}`)
    }
  }
}
