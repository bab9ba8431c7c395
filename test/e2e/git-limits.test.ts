import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject, type Project } from '../support/git.ts'
import { processesIn } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { type SshSite, startSshSite } from '../support/ssh-site.ts'

// Each folder of one level lists the same folder of the next one so many times.
const levels = 12
const copies = 10

let site: SshSite
let project: Project

describe('what git may take to answer one request', { skip: without('openssh') }, () => {
  before(async () => {
    const env = { SVC_GIT_CPU_SECONDS: '1', SVC_GIT_MEMORY_MAX: '64MiB' }
    site = await startSshSite({ env })
    project = await createProject()
    await project.git('push', site.service.admin.remote('site'), 'HEAD:refs/heads/main')
    await pushTreeBomb()
    await pushExpandingFile()
  })

  after(async () => {
    await project[Symbol.asyncDispose]()
    await site[Symbol.asyncDispose]()
  })

  const remotes = { HTTP: () => site.service.admin.remote('site'), SSH: () => site.remote() }
  for (const [transport, remote] of Object.entries(remotes)) {
    for (const version of ['0', '2']) {
      test(`a fetch of version ${version} over ${transport} that would compute for ever is ended`, async () => {
        const args = ['-c', `protocol.version=${version}`, 'clone', '--quiet', '--no-checkout']
        const filtered = [...args, '--filter=sparse:oid=bomb:patterns', '--branch=bomb']
        await assert.rejects(site.git('/', [...filtered, remote(), site.newFolder()]), /fatal: /)
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

  test('an archive that would compute for ever is ended', async () => {
    const archive = ['archive', `--remote=${site.remote()}`, `--output=${site.newFolder()}.tar`]
    await assert.rejects(
      site.git('/', [...archive, 'bomb', ':(glob)**/nothing']),
      /archiver (process was lost|died)/,
    )
    await untilNoGit()
    await site.git('/', [...archive, 'main'])
  })

  test('an archive that takes more memory than git may have is ended', async () => {
    const archive = ['archive', `--remote=${site.remote()}`, `--output=${site.newFolder()}.tar`]
    await assert.rejects(site.git('/', [...archive, 'expanding']), /out of memory|died|lost/i)
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

async function push(branch: string, tree: string, message: string): Promise<void> {
  const commit = await project.git('commit-tree', tree, '-m', message)
  await project.git('push', site.service.admin.remote('site'), `${commit}:refs/heads/${branch}`)
}

const makeBlob = (input: string) => make(['hash-object', '-w', '--stdin'], input)
const makeTree = (input: string) => make(['mktree'], input)

function make(args: string[], input: string): string {
  return execFileSync('git', args, { cwd: project.path, input, encoding: 'utf8' }).trim()
}
