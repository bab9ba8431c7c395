import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { findProgram } from '#base/find-program.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { createPrograms } from '../support/doctor.ts'
import { createProject, git, type Project, spawnGit } from '../support/git.ts'
import { startSshSite } from '../support/ssh-site.ts'

test('among many refs, a tag that moves forward makes git check only its own ref', async () => {
  await using site = await startSite()
  await using project = await createProject()
  const push = async (...args: string[]) => {
    await project.git('push', '--quiet', '--force', site.remote, ...args)
    return site.wasNarrow()
  }
  const newTag = await push('HEAD:refs/tags/work')
  await project.commit('second.txt')
  const update = await push('HEAD:refs/tags/work')
  await project.commit('third.txt')
  await project.git('commit', '--quiet', '--allow-empty', '-m', 'Fourth')
  const twoCommits = await push('HEAD:refs/tags/work')
  await project.git('commit', '--quiet', '--amend', '--allow-empty', '-m', 'Again')
  const forced = await push('HEAD:refs/tags/work')
  const moved = await push('HEAD~2:refs/tags/work')
  await project.commit('fifth.txt')
  const twoRefs = await push('HEAD:refs/tags/work', 'HEAD:refs/tags/other')
  const narrow = { newTag, update, twoCommits, forced, moved, twoRefs }
  assert.deepEqual(narrow, {
    ...{ newTag: false, update: true, twoCommits: true },
    ...{ forced: false, moved: false, twoRefs: false },
  })
  await project.commit('sixth.txt')
  await site.overSsh(project, 'push', '--quiet', '--force', site.ssh, 'HEAD:refs/tags/work')
  assert.equal(await site.wasNarrow(), true)
  const { stdout } = await git(site.directory, ['rev-parse', 'refs/tags/work'])
  assert.equal(stdout, await project.git('rev-parse', 'HEAD'))
  await git(site.directory, ['fsck', '--full', '--strict'])
})

test('missing objects of a push are detected among many refs, too, and hidden refs stay hidden', async () => {
  await using site = await startSite()
  await using project = await createProject()
  await project.git('push', '--quiet', site.remote, 'HEAD:work')
  const before = await project.git('rev-parse', 'HEAD')
  const after = await project.commit('second.txt')
  const tree = await project.git('rev-parse', 'HEAD^{tree}')

  // The tree is there already, as one to which nothing leads may be, but its new file is not.
  await site.unpack(await packOf(project, [tree]))
  const answer = await site.push(before, after, await packOf(project, [after]))
  assert.match(answer, /missing necessary objects/)
  assert.equal(await site.wasNarrow(), true)
  assert.equal((await git(site.directory, ['rev-parse', 'work'])).stdout, before)

  await git(site.directory, ['update-ref', 'refs/svc/kept/x/y', before])
  const hidden = project.git('push', '--quiet', site.remote, 'HEAD:refs/svc/kept/x/y')
  await assert.rejects(hidden, /hidden ref|refs\/svc/)
  assert.equal(await site.wasNarrow(), false)
})

/** A service whose repository `site` has many packed refs, which git reads slowly. */
async function startSite() {
  await using starting = new AsyncDisposableStack()
  const real = findProgram('git', process.env.PATH ?? '')
  const script = `case $1 in receive-pack) env >"\${0%/*}/environment" ;; esac; exec '${real}' "$@"`
  const programs = starting.use(await createPrograms({ git: script }))
  const site = starting.use(await startSshSite({ env: { PATH: programs.first } }))
  const { service } = site
  const { path: directory } = (await service.admin.get('/repos/site')).body
  await using first = await createProject()
  const remote = service.admin.remote('site')
  await first.git('push', '--quiet', remote, 'HEAD:first')
  const id = await first.git('rev-parse', 'HEAD')
  const names = Array.from({ length: 5000 }, (_, number) => `refs/heads/many/${1e5 + number}`)
  const lines = names.map((name) => `${id} ${name}\n`).join('')
  await writeFile(
    join(directory, 'packed-refs'),
    `# pack-refs with: peeled fully-peeled sorted \n${lines}`,
  )
  const started = starting.move()

  return {
    directory: String(directory),
    remote,
    ssh: site.remote(),
    overSsh: (project: Project, ...args: string[]) => site.git(project.path, args),

    /** Whether the git of the push before had all refs but the pushed one hidden. */
    async wasNarrow(): Promise<boolean> {
      const environment = await readFile(join(programs.path, 'environment'), 'utf8')
      return /=!refs\/(heads|tags)\/work$/m.test(environment)
    },

    /** Sends a push of a pack to the branch `work`; what git answers. */
    async push(before: string, after: string, pack: Buffer): Promise<string> {
      const command = packet(`${before} ${after} refs/heads/work\0 report-status`)
      const response = await fetch(`${service.url}/repos/site.git/git-receive-pack`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${service.adminToken}`,
          'content-type': 'application/x-git-receive-pack-request',
        },
        body: Buffer.concat([command, flushPacket, pack]),
      })
      return response.text()
    },

    /** Adds objects without checking what they reference. */
    async unpack(pack: Buffer): Promise<void> {
      const child = spawnGit(String(directory), ['unpack-objects', '-q'])
      child.stdin.end(pack)
      assert.deepEqual(await once(child, 'close'), [0, null])
    },

    [Symbol.asyncDispose]: () => started.disposeAsync(),
  }
}

/** A pack of some objects alone. */
async function packOf(project: Project, ids: string[]): Promise<Buffer> {
  const child = spawnGit(project.path, ['pack-objects', '--stdout', '--quiet'])
  child.stdin.end(`${ids.join('\n')}\n`)
  const [pack] = await Promise.all([buffer(child.stdout), once(child, 'close')])
  return pack
}
