// Tags: exhaustive
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { git, temporaryFolder } from '../support/git.ts'
import { importHistory, updateRefs } from '../support/history.ts'
import { toRounds } from '../support/rounds.ts'
import { type Service, startService } from '../support/service.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

let service: Service

before(async () => {
  service = await startService()
})

after(() => service[Symbol.asyncDispose]())

test("the project's own repository survives a round trip", async () => {
  await using folder = await temporaryFolder()
  const head = (await git(root, ['rev-parse', 'HEAD'])).stdout
  await service.admin.post('/repos', { name: 'own' })
  const isShallow = (await git(root, ['rev-parse', '--is-shallow-repository'])).stdout === 'true'
  assert.ok(!isShallow, 'these tests need a whole clone of the project')
  // Its history has tokens that tests made up.
  await service.admin.patch('/repos/own', { leakGuard: false })
  await git(root, ['push', '--quiet', service.admin.remote('own'), 'HEAD:refs/heads/main'])
  const copy = join(folder.path, 'copy')
  await git(folder.path, ['clone', '--quiet', service.admin.remote('own'), copy])
  assert.equal((await git(copy, ['rev-parse', 'HEAD'])).stdout, head)
  await assertSound(copy)
})

// Each of a thousand refs.
const groups = toRounds(2)

test('a repository of thousands of commits and refs survives a round trip', async () => {
  await using folder = await temporaryFolder()
  const [source, copy] = [join(folder.path, 'source'), join(folder.path, 'copy')]
  await git(folder.path, ['init', '--quiet', '--bare', '--initial-branch=main', source])
  await importHistory(source, { commits: 3000 })
  await service.admin.post('/repos', { name: 'large' })
  const remote = service.admin.remote('large')
  await git(source, ['push', '--quiet', remote, 'main'])
  const commits = (await git(source, ['rev-list', 'main'])).stdout.split('\n')
  const expected = [`refs/heads/main ${commits[0]}`]
  for (let group = 0; group < groups; group++) {
    const refs = Array.from({ length: 1000 }, (_, index) => {
      const kind = index % 2 ? 'heads' : 'tags'
      return `refs/${kind}/group-${group}/${index} ${commits[(group * 1000 + index) % commits.length]}`
    })
    // Git's client takes time in proportion to the square of the refs that it has.
    await updateRefs(
      source,
      refs.map((ref) => `create ${ref}`),
    )
    await git(source, ['push', '--quiet', remote, 'refs/heads/group*:refs/heads/group*', '--tags'])
    await updateRefs(
      source,
      refs.map((ref) => `delete ${ref}`),
    )
    expected.push(...refs)
  }
  await git(folder.path, ['clone', '--quiet', '--mirror', remote, copy])
  const listed = (await git(copy, ['for-each-ref', '--format=%(refname) %(objectname)'])).stdout
  assert.deepEqual(listed.split('\n').sort(), expected.sort())
  assert.equal((await git(copy, ['rev-list', '--count', 'main'])).stdout, '3000')
  await assertSound(copy)
  const { body } = await service.admin.get('/repos/large')
  await assertSound(body.path)
})

async function assertSound(path: string): Promise<void> {
  const { stdout, stderr } = await git(path, ['fsck', '--full', '--strict'])
  assert.equal(stdout + stderr.replace(/^(notice|Checking).*$/gm, '').trim(), '')
}
