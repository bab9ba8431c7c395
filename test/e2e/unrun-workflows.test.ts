import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject, git, type Project } from '../support/git.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, run, type SshUser } from '../support/ssh-user.ts'
import { commitFiles } from '../support/waiting-push.ts'

let service: Service
let client: Client
let user: SshUser

before(async () => {
  service = await startServiceWithSsh()
  client = await service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
  user = await createSshUser(service, client)
})

after(async () => {
  await user[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const text = 'on: push\njobs: { a: { runs-on: ubuntu-latest, steps: [{ run: "true" }] } }\n'

/** Pushes; the commands of the lines about workflows that are not run. */
async function push(project: Project, remote: string, ...refs: string[]): Promise<string[]> {
  const { stderr } = await git(project.path, ['push', remote, ...refs], {
    GIT_SSH_COMMAND: user.command,
  })
  const lines = stderr.matchAll(/^remote: .*not run here\. To run them, move them: (.*?)\s*$/gm)
  return [...lines].map(([, command = '']) => command)
}

async function move(project: Project, command: string): Promise<string> {
  const moved = await run('sh', ['-c', `cd '${project.path}' && ${command}`])
  assert.equal(moved.exitCode, 0, moved.stderr)
  await project.git('commit', '--quiet', '-m', 'Move workflows')
  return project.git('ls-files', '.svc', '.github')
}

for (const transport of ['http', 'ssh'] as const) {
  test(`a push over ${transport} says how workflows in GitHub's folder are moved, once`, async () => {
    await using project = await createProject()
    const name = `moved-${transport}`
    await client.post('/repos', { name })
    const remote = transport === 'http' ? client.remote(name) : user.remote(name)
    await commitFiles(project, {
      '.github/workflows/ci.yml': text,
      '.github/workflows/a "new" one.yaml': text,
      '.github/workflows/readme.md': 'x',
      '.github/dependabot.yml': 'x',
    })
    const whole = 'mkdir -p .svc && git mv .github/workflows .svc/workflows'
    assert.deepEqual(await push(project, remote, 'HEAD:main'), [whole])
    await commitFiles(project, { 'other.txt': 'x', '.github/dependabot.yml': 'y' })
    assert.deepEqual(await push(project, remote, 'HEAD:main', 'HEAD:topic'), [])
    assert.deepEqual(await push(project, remote, 'HEAD:later'), [])
    assert.equal(
      await move(project, whole),
      [
        '.github/dependabot.yml',
        '".svc/workflows/a \\"new\\" one.yaml"',
        '.svc/workflows/ci.yml',
        '.svc/workflows/readme.md',
      ].join('\n'),
    )
    assert.deepEqual(await push(project, remote, 'HEAD:main'), [])
  })

  test(`a push over ${transport} says which files are not run beside those that are`, async () => {
    await using project = await createProject()
    const name = `beside-${transport}`
    await client.post('/repos', { name })
    const remote = transport === 'http' ? client.remote(name) : user.remote(name)
    const called = 'on: workflow_call\njobs: {}\n'
    await commitFiles(project, {
      '.svc/workflows/ci.yml': text,
      '.github/workflows/ci.yml': text,
      '.github/workflows/called.yml': called,
    })
    assert.deepEqual(await push(project, remote, 'HEAD:main'), [])
    await commitFiles(project, { ".github/workflows/it's.yml": text })
    await project.git('branch', 'other')
    const [command = '', ...more] = await push(project, remote, 'HEAD:main', 'other')
    assert.equal(command, `git mv '.github/workflows/it'\\''s.yml' .svc/workflows/`)
    assert.deepEqual(more, [])
    assert.match(await move(project, command), /^\.svc\/workflows\/it's\.yml$/m)
  })
}

test('a push that is refused, and one of a tag, say nothing of workflows', async () => {
  await using project = await createProject()
  await client.post('/repos', { name: 'refused' })
  await commitFiles(project, { '.github/workflows/ci.yml': text })
  assert.deepEqual(await push(project, client.remote('refused'), 'HEAD:refs/tags/v1'), [])
  const refused = git(project.path, ['push', client.remote('refused'), 'HEAD:refs/svc/kept/x'])
  await assert.rejects(refused, (error) => !/move them/.test(String(Object(error).stderr)))
})
