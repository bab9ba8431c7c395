// Tags: exhaustive
import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { assertAccessibleInEveryView } from '../support/browser.ts'
import { createProject, type Project } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'

const skip = without('chromium')

let service: Service
let project: Project
/** The commit of each kind of change, by its name. */
const commits: Record<string, string> = {}

const lines = (count: number) =>
  Array.from({ length: count }, (_, index) => `line ${index}\n`).join('')
const pixel = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

/** What changes in a commit: each works on the files of those before it. */
const changes: Record<string, (at: (path: string) => string) => Promise<unknown>> = {
  'files of all kinds': async (at) => {
    await mkdir(at('folder'))
    await writeFile(at('folder/program.ts'), `export const a = 1\n${lines(40)}`)
    await writeFile(at('text.txt'), lines(100))
    await writeFile(at('moved.txt'), `moved\n${lines(50)}`)
    await writeFile(at('binary.bin'), '\0\u0001')
    await writeFile(at('image.png'), pixel)
    await writeFile(at('script.sh'), 'echo\n')
    await writeFile(at('empty'), '')
    await writeFile(at('latin.txt'), Buffer.from('caf\xe9\n', 'latin1'))
    await symlink('text.txt', at('link'))
  },
  'changed lines': async (at) => {
    await writeFile(at('text.txt'), lines(100).replace('line 3\n', 'line three\nand more\n'))
    await writeFile(at('folder/program.ts'), `export const a = 2\n${lines(39)}last`)
  },
  'a renamed file': async (at) => {
    await rename(at('moved.txt'), at('folder/arrived.txt'))
    await writeFile(at('folder/arrived.txt'), `changed\n${lines(50)}`)
  },
  'a changed mode': (at) => chmod(at('script.sh'), 0o755),
  'a changed image and binary': async (at) => {
    await writeFile(at('image.png'), Buffer.concat([pixel, Buffer.from('more')]))
    await writeFile(at('binary.bin'), '\0\u0002\u0003')
  },
  'another kind of file': async (at) => {
    await rm(at('link'))
    await writeFile(at('link'), 'a file\n')
  },
  'text that is not UTF-8': (at) => writeFile(at('latin.txt'), Buffer.from('th\xe9\n', 'latin1')),
  'very long lines': (at) => writeFile(at('long.txt'), `${'long '.repeat(5000)}\n`),
  'more lines than a page shows': (at) => writeFile(at('huge.txt'), lines(12_000)),
  'very many files': async (at) => {
    await mkdir(at('many'))
    for (let index = 0; index < 100; index++)
      await writeFile(at(`many/${'deep_name_'.repeat(6)}${index}`), `${index}\n`)
  },
  'deleted files': async (at) => {
    for (const name of ['image.png', 'empty', 'text.txt', 'latin.txt']) await rm(at(name))
  },
}

before(async () => {
  if (skip) return
  service = await startService()
  project = await createProject()
  for (const [message, change] of Object.entries(changes)) {
    await change((path) => join(project.path, path))
    commits[message] = await commitAll(message)
  }
  const submodule = `160000,${commits['changed lines']},module`
  await project.git('update-index', '--add', '--cacheinfo', submodule)
  await project.git('commit', '--quiet', '-m', 'a submodule')
  commits['a submodule'] = await project.git('rev-parse', 'HEAD')
  await project.git('switch', '--quiet', '-c', 'side', 'HEAD~2')
  await writeFile(join(project.path, 'side.txt'), 'side\n')
  await commitAll('side')
  await project.git('switch', '--quiet', 'main')
  await project.git('merge', '--quiet', '--no-ff', '-m', 'a merge', 'side')
  commits['a merge'] = await project.git('rev-parse', 'HEAD')
  await project.git('commit', '--quiet', '--allow-empty', '--allow-empty-message', '-m', '')
  commits['nothing, without a message'] = await project.git('rev-parse', 'HEAD')
  const { admin } = service
  await admin.post('/repos', { name: 'site' })
  await admin.post('/repos', { name: 'bare' })
  await project.git('push', '--quiet', admin.remote('site'), '--all')
})

after(async () => {
  if (skip) return
  await project[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

async function commitAll(message: string): Promise<string> {
  await project.git('add', '--all')
  await project.git('commit', '--quiet', '-m', message)
  return project.git('rev-parse', 'HEAD')
}

test('every kind of diff is accessible and quiet', { skip }, async () => {
  const pageOf = (message: string, query = '') => `/r/site/commit/${commits[message]}${query}`
  await assertAccessibleInEveryView(service, [
    ...Object.keys(commits).map((message) => pageOf(message)),
    ...['changed lines', 'a renamed file', 'a changed image and binary', 'a submodule'].map(
      (message) => pageOf(message, '?split'),
    ),
    pageOf('changed lines', '?file=text.txt&lines=all'),
    pageOf('changed lines', '?file=text.txt&lines=all&split'),
    ...['main...side', 'side...main?split', 'main...main'].map(
      (range) => `/r/site/compare/${range}`,
    ),
  ])
})

test('every list is accessible and quiet when it is empty, and when a filter finds nothing', {
  skip,
}, async () => {
  const lists = ['', '/log', '/branches', '/tags', '/runs', '/pushes']
  const others = ['/webhooks', '/settings', '/compare', '/start-run']
  const filters = ['/log?author=absent', '/branches?q=absent', '/tags?q=absent', '/search?q=absent']
  await assertAccessibleInEveryView(service, [
    ...[...lists, ...others].map((path) => `/r/bare${path}`),
    ...[...lists, ...filters, '/find/main'].map((path) => `/r/site${path}`),
    '/?q=absent',
    ...['keys', 'tokens', 'deleted', 'audit', 'events', 'new'].map((name) => `/-/${name}`),
  ])
})
