// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject, type Project } from '../support/git.ts'
import { parseMetrics } from '../support/metrics-text.ts'
import { processesIn } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { cloneBody, gitHeaders } from '../support/raw-git.ts'
import { type SshSite, startSshSite } from '../support/ssh-site.ts'

// Each folder lists the same folder of the next level many times.
const levels = 12
const copies = 10

const tooLong = /Git exceeded the server's limit of 1 s of processor time.*SVC_GIT_CPU_SECONDS/
const tooLarge = /Git exceeded the server's limit of 64 MiB of memory.*SVC_GIT_MEMORY_MAX/

let site: SshSite
let project: Project
let largeTag: string

describe('resource limits of git per request', { skip: without('openssh') }, () => {
  before(async () => {
    const env = { SVC_GIT_CPU_SECONDS: '1', SVC_GIT_MEMORY_MAX: '64MiB' }
    site = await startSshSite({ env })
    project = await createProject()
    await project.git('push', site.service.admin.remote('site'), 'HEAD:refs/heads/main')
    await pushTreeBomb()
    await pushExpandingFile()
    largeTag = await pushLargeTag()
  })

  after(async () => {
    await project[Symbol.asyncDispose]()
    await site[Symbol.asyncDispose]()
  })

  const larges = {
    HTTP: () => site.service.admin.remote('large'),
    SSH: () => site.remote().replace('site.git', 'large.git'),
  }
  const remotes = { HTTP: () => site.service.admin.remote('site'), SSH: () => site.remote() }
  for (const [transport, remote] of Object.entries(remotes)) {
    for (const version of ['0', '2']) {
      test(`an endless fetch of version ${version} over ${transport} is ended`, async () => {
        const args = ['-c', `protocol.version=${version}`, 'clone', '--quiet', '--no-checkout']
        const filtered = [...args, '--filter=sparse:oid=bomb:patterns', '--branch=bomb']
        await assert.rejects(site.git('/', [...filtered, remote(), site.newFolder()]), tooLong)
        await untilNoGit()
        await site.git('/', [
          ...args,
          '--branch=main',
          '--single-branch',
          remote(),
          site.newFolder(),
        ])
      })
    }
  }

  test('an endless archive is ended', async () => {
    const archive = ['archive', `--remote=${site.remote()}`, `--output=${site.newFolder()}.tar`]
    // How much memory git takes meanwhile depends on its version.
    const ended = new RegExp(`${tooLong.source}|${tooLarge.source}`)
    await assert.rejects(site.git('/', [...archive, 'bomb', ':(glob)**/nothing']), ended)
    await untilNoGit()
    await site.git('/', [...archive, 'main'])
  })

  test('an archive that exceeds the memory limit is ended', async () => {
    const archive = ['archive', `--remote=${site.remote()}`, `--output=${site.newFolder()}.tar`]
    await assert.rejects(site.git('/', [...archive, 'expanding']), tooLarge)
  })

  // Each of these fails before git has said anything.
  for (const version of ['0', '2']) {
    for (const [transport, remote] of Object.entries(larges)) {
      test(`refs of version ${version} over ${transport} that exceed the memory limit are rejected`, async () => {
        const args = ['-c', `protocol.version=${version}`, 'ls-remote', remote()]
        await assert.rejects(site.git('/', args), tooLarge)
      })
    }
  }

  for (const [transport, remote] of Object.entries(larges)) {
    test(`a fetch over ${transport} that exceeds the memory limit is rejected`, async () => {
      const args = ['-c', 'protocol.version=2', 'fetch', '--no-tags', remote(), largeTag]
      const folder = site.newFolder()
      await site.git('/', ['init', '--quiet', folder])
      await assert.rejects(site.git(folder, args), tooLarge)
    })
  }

  test('a fetch of version 0 that exceeds the memory limit is rejected', async () => {
    const body = cloneBody(largeTag)
    const { 'content-length': _, ...headers } = gitHeaders(
      'git-upload-pack',
      site.service.adminToken,
      0,
    )
    const response = await fetch(`${site.service.url}/repos/large.git/git-upload-pack`, {
      method: 'POST',
      headers: headers as Record<string, string>,
      body,
    })
    assert.match(await response.text(), /^[0-9a-f]{4}ERR Git exceeded the server's limit of 64 MiB/)
  })

  test('exceeded limits do not count as server failures', async () => {
    const { samples } = parseMetrics((await site.service.admin.get('/metrics')).text)
    const outcomes = samples.filter(({ name }) => name === 'svc_git_operations_total')
    assert.ok(outcomes.some(({ labels }) => labels.outcome === 'refused'))
    assert.deepEqual(
      outcomes.filter(({ labels }) => labels.outcome === 'failed'),
      [],
    )
  })
})

const untilNoGit = () =>
  until('no git process is left', () => processesIn(site.service.dataDir).length === 0)

/** A branch `bomb` whose tree has very many paths and few objects. */
async function pushTreeBomb(): Promise<void> {
  const blob = makeBlob('!nothing\n')
  let entries = `100644 blob ${blob}\tfile\n`
  for (let level = 0; level < levels; level++) {
    const tree = makeTree(entries)
    const names = Array.from({ length: copies }, (_, index) => `folder-${index}`)
    entries = names.map((name) => `040000 tree ${tree}\t${name}\n`).join('')
  }
  await push('bomb', makeTree(`${entries}100644 blob ${blob}\tpatterns\n`), 'Add a bomb')
}

/** A branch `expanding` with a small file that an archive makes 192 MB of. */
async function pushExpandingFile(): Promise<void> {
  const attributes = makeBlob('file export-subst\n')
  const file = makeBlob('$Format:%B$'.repeat(12_000))
  const tree = makeTree(`100644 blob ${attributes}\t.gitattributes\n100644 blob ${file}\tfile\n`)
  await push('expanding', tree, 'x'.repeat(16_000))
}

/** A repository `large` with a tag whose message is larger than the memory that git may take; the tag's id. */
async function pushLargeTag(): Promise<string> {
  await site.service.admin.post('/repos', { name: 'large' })
  const head = await project.git('rev-parse', 'HEAD')
  const fields = `object ${head}\ntype commit\ntag large\ntagger Ada <ada@example.com> 0 +0000\n\n`
  const tag = make(['hash-object', '-t', 'tag', '-w', '--stdin'], fields + 'x'.repeat(80_000_000))
  const remote = site.service.admin.remote('large')
  await project.git('push', remote, `${tag}:refs/tags/large`)
  return tag
}

async function push(branch: string, tree: string, message: string): Promise<void> {
  const commit = await project.git('commit-tree', tree, '-m', message)
  await project.git('push', site.service.admin.remote('site'), `${commit}:refs/heads/${branch}`)
}

const makeBlob = (input: string) => make(['hash-object', '-w', '--stdin'], input)
const makeTree = (input: string) => make(['mktree'], input)

function make(args: string[], input: string): string {
  return execFileSync('git', args, { cwd: project.path, input, encoding: 'utf8' }).trim()
}
