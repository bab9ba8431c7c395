import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { launcher, startService } from '../support/service.ts'

const ci = `
name: CI
on: [push]
jobs:
  list:
    runs-on: ubuntu-latest
    steps:
      - name: List
        run: |
          ls -A
          git status --short
          git log --format=%s
          echo "on $SVC_BRANCH"
  after:
    needs: list
    runs-on: ubuntu-latest
    steps:
      - run: echo "key $DEPLOY_KEY"; exit 5
`

const deploy = `
on:
  workflow_dispatch:
    inputs:
      target: { type: choice, options: [staging, production] }
      count: { type: number, default: 3 }
jobs:
  deploy:
    runs-on: ubuntu-latest
    steps:
      - run: echo "to \${{ inputs.target }} times \${{ inputs.count }}"
`

test('a working tree is run as it is, and not changed', async () => {
  await using project = await projectWith({ 'ci.yml': ci })
  await project.commit('gone.txt')
  await project.commit('.gitignore', '*.log\n')
  await rm(join(project.path, 'gone.txt'))
  await writeFile(join(project.path, 'new.txt'), 'new')
  await writeFile(join(project.path, 'ignored.log'), 'ignored')
  const before = await project.git('status', '--short')

  const ran = await svc(project.path, ['run'], { DEPLOY_KEY: 'correct-horse' }, [
    '--secret',
    'DEPLOY_KEY',
  ])

  assert.equal(ran.code, 1, ran.err)
  const listed = ran.out.match(/^list \| .*$/gm)?.map((line) => line.slice('list | '.length))
  assert.deepEqual(listed, [
    '▶ List',
    '.git',
    '.gitignore',
    '.svc',
    'new.txt',
    'readme.txt',
    ' D gone.txt',
    '?? new.txt',
    'Add .gitignore',
    'on main',
  ])
  assert.match(ran.out, /after \| key \*\*\*\nafter \| ✗ exit code 5\n/)
  assert.match(ran.out, /\nlist +success +\d+\.\d s\n {2}List +success .*\nafter +failure .*\n/)
  assert.match(ran.out, /✗ failure\n$/)
  assert.equal(await project.git('status', '--short'), before)
})

const checkouts = `
on: [push]
jobs:
  one:
    runs-on: ubuntu-latest
    steps:
      - { uses: actions/checkout@v4, with: { fetch-depth: 0 } }
      - { uses: actions/checkout@v4, with: { ref: v1, path: old } }
      - name: List
        run: |
          git rev-list --count HEAD
          git tag
          ls
          cat readme.txt
          ls old
`

test('steps check out commits of the repository, beside the files of the working tree', async () => {
  await using project = await createProject()
  await project.git('tag', 'v1')
  await project.commit('second.txt')
  await mkdir(join(project.path, '.svc/workflows'), { recursive: true })
  await writeFile(join(project.path, '.svc/workflows/ci.yml'), checkouts)
  await writeFile(join(project.path, 'readme.txt'), 'changed\n')
  const { code, out, err } = await svc(project.path, ['run'])
  assert.equal(code, 0, out + err)
  assert.match(out, / List\n2\nv1\nold\nreadme\.txt\nsecond\.txt\nchanged\nreadme\.txt\n/)
})

test('only the requested jobs run, with those that they need', async () => {
  await using project = await projectWith({ 'ci.yml': ci, 'deploy.yml': deploy })
  const ran = await svc(project.path, ['run', '--job', 'list', 'ci.yml'])
  assert.equal(ran.code, 0, ran.err)
  assert.doesNotMatch(ran.out, /exit code 5/)
  const wrong = await svc(project.path, ['run', '--job', 'lst', 'ci.yml'])
  assert.deepEqual([wrong.code, wrong.err], [2, 'svc: --job lst: the jobs are list, after.\n'])
})

test('inputs are checked, with defaults', async () => {
  await using project = await projectWith({ 'ci.yml': ci, 'deploy.yml': deploy })
  const asked = ['run', '--event', 'workflow_dispatch']
  const ran = await svc(project.path, [...asked, '--input', 'target=production'])
  assert.equal(ran.code, 0, ran.err)
  assert.match(ran.out, /\nto production times 3\n/)
  const wrong = await svc(project.path, [...asked, '--input', 'target=moon'])
  assert.match(wrong.err, /"target" must be one of/)
  const unknown = await svc(project.path, [...asked, '--input', 'tarket=moon'])
  assert.match(unknown.err, /--input tarket: no workflow has such an input/)
})

test('faults of files are reported by line and column, and nothing runs', async () => {
  await using project = await projectWith({ 'ci.yml': 'on: push\njobs:\n  a:\n    step: []\n' })
  for (const args of [['run'], ['run', '--check', '.svc/workflows/ci.yml']]) {
    const ran = await svc(project.path, args)
    assert.equal(ran.code, 2)
    assert.equal(ran.out, '')
    assert.match(
      ran.err,
      /^\.svc\/workflows\/ci\.yml:4:5: Unexpected key "step" .* Instead: .*steps/m,
    )
  }
})

test('a check advises against inheriting all secrets', async () => {
  const steps = `steps: [{ run: 'x \${{ secrets.B_KEY }} \${{ secrets.B_KEY }}', env: { A: "\${{ secrets['A_KEY'] }}" } }]\n`
  await using project = await projectWith({
    'all.yml': `secrets: inherit\n${steps}`,
    'named.yml': steps,
    'listed.yml': `secrets: [A_KEY, B_KEY]\n${steps}`,
    'none.yml': 'secrets: []\nsteps: [{ run: x }]\n',
  })
  const { code, err } = await svc(project.path, ['run', '--check'])
  assert.equal(code, 0, err)
  assert.match(err, /^\.svc\/workflows\/all\.yml: .*"secrets: \[A_KEY, B_KEY\]".*\n$/)
})

test('a check asks the server which hosts its steps reach', exhaustive, async () => {
  const listing = 'network: [registry.npmjs.org, "*.evil.test"]\nsecrets: []\nsteps: [{ run: x }]\n'
  await using project = await projectWith({
    'ci.yml': listing,
    'job.yml': 'secrets: []\njobs: { one: { network: [other.test], steps: [{ run: x }] } }\n',
    'none.yml': 'network: none\nsecrets: []\nsteps: [{ run: x }]\n',
  })
  const check = (env: Record<string, string> = {}, args: string[] = []) =>
    svc(project.path, ['run', '--check', ...args], env)
  const unknown = await check()
  assert.equal(unknown.code, 0)
  assert.match(unknown.err, /^note: Whether steps reach .* it depends on the server\. Log in .*\n$/)
  const env = { SVC_RUNNER: 'on', SVC_STEP_HOSTS: 'registry.npmjs.org, private' }
  await using service = await startService({ env })
  const reader = await service.client({ username: 'reader', permissions: ['workflow:read'] })
  const login = { SVC_URL: service.url, SVC_TOKEN: reader.token }
  const known = await check(login)
  assert.equal(known.code, 0)
  const not = `SVC_STEP_HOSTS of ${service.url} does not allow it.`
  assert.deepEqual(known.err.split('\n').sort(), [
    '',
    `.svc/workflows/ci.yml: note: Steps cannot reach *.evil.test: ${not}`,
    `.svc/workflows/job.yml: note: Steps cannot reach other.test: ${not}`,
  ])
  const refused = await check({ ...login, SVC_TOKEN: `svc_${'x'.repeat(40)}` })
  assert.equal(refused.code, 0)
  assert.match(refused.err, /^note: Whether steps reach .* is not known here: .*token/)
  await service.end('SIGKILL')
  const gone = await check(login)
  assert.equal(gone.code, 0)
  assert.match(gone.err, /^note: Whether steps reach /)
  const other = await check(login, ['--server', 'elsewhere'])
  assert.equal(other.code, 2)
  assert.match(other.err, /not logged in to a server "elsewhere"/)
  // Without hosts there is nothing to ask.
  assert.equal((await check({}, ['none.yml'])).err, '')
})

test(
  'a file is checked where it is, also of GitHub, of another repository and of none',
  exhaustive,
  async () => {
    await using elsewhere = await temporaryFolder()
    const folder = join(elsewhere.path, '.github', 'workflows')
    await mkdir(join(elsewhere.path, 'tool'))
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'ci.yml'), 'on: [push, release]\nsteps: [{ uses: ./tool }]\n')
    const action = 'runs: { using: composite, steps: [{ run: x, shell: sh }] }'
    await writeFile(join(elsewhere.path, 'tool', 'action.yml'), action)
    const fine = await svc(elsewhere.path, ['run', '--check', '.github/workflows/ci.yml'])
    assert.deepEqual(
      [fine.code, fine.out],
      [0, '.github/workflows/ci.yml: fine, its job can run\n'],
    )
    assert.match(fine.err, /^\.github\/workflows\/ci\.yml:1:12: note: "release" starts no runs/)

    await using project = await projectWith({ 'ci.yml': ci })
    const path = relative(project.path, join(folder, 'ci.yml'))
    const both = await svc(project.path, ['run', '--check', path, 'ci.yml'])
    assert.deepEqual(
      [both.code, both.out],
      [0, `${path}: fine, its job can run\n.svc/workflows/ci.yml: fine, all 2 jobs can run\n`],
    )
    const run = await svc(project.path, ['run', path])
    assert.equal(run.code, 2)
    assert.match(run.err, /not in this repository; --check checks it/)

    const unnamed = await svc(elsewhere.path, ['run', '--check'])
    assert.equal(unnamed.code, 2)
    assert.match(unnamed.err, /name the files/)
  },
)

test("without workflow files of its own, a repository has GitHub's", exhaustive, async () => {
  await using project = await projectWith({ 'ci.yml': ci })
  await rm(join(project.path, '.svc'), { recursive: true })
  const folder = join(project.path, '.github', 'workflows')
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'ci.yml'), 'on: [push, fork]\nsteps: [{ run: echo its own }]\n')
  await writeFile(join(folder, 'pr.yml'), 'on: issues\nsteps: [{ run: x }]\n')
  const checked = await svc(project.path, ['run', '--check'])
  assert.equal(checked.code, 2)
  assert.match(checked.err, /^\.github\/workflows\/pr\.yml:1:5: Issues .* Instead: /m)
  const ran = await svc(project.path, ['run', '.github/workflows/ci.yml'])
  assert.equal(ran.code, 0, ran.err)
  assert.match(ran.out, /its own/)
})

test('a valid file is confirmed, and a missing one reported', async () => {
  await using project = await projectWith({ 'ci.yml': ci })
  const fine = await svc(project.path, ['run', '--check'])
  assert.deepEqual([fine.code, fine.out], [0, '.svc/workflows/ci.yml: fine, all 2 jobs can run\n'])
  const absent = await svc(project.path, ['run', 'other.yml'])
  assert.equal(absent.code, 2)
  assert.match(absent.err, /other\.yml is not a file in \.svc\/workflows/)
  await using elsewhere = await temporaryFolder()
  const outside = await svc(elsewhere.path, ['run'])
  assert.equal(outside.code, 2)
  assert.match(outside.err, /not in a Git repository/)
})

test('a repository without a commit runs, too', async () => {
  await using folder = await temporaryFolder()
  await git(folder.path, ['init', '--quiet', '--initial-branch=main'])
  await write(
    join(folder.path, '.svc/workflows/a.yml'),
    'steps:\n  - run: cat ../workspace/x; ls\n',
  )
  await writeFile(join(folder.path, 'x'), 'x\n')
  const ran = await svc(folder.path, ['run'])
  assert.equal(ran.code, 0, ran.err + ran.out)
})

test('Ctrl-C cancels the run, and leaves nothing behind', async () => {
  const slow = `
steps:
  - run: echo begun; sleep 100
  - name: cleanup
    if: always()
    run: echo cleaned
`
  await using project = await projectWith({ 'slow.yml': slow })
  await using temporary = await temporaryFolder()
  const child = start(project.path, ['run'], { TMPDIR: temporary.path })
  const ended = once(child, 'close')
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    if (!out.includes('begun\n') && `${out}${chunk}`.includes('\nbegun\n')) child.kill('SIGINT')
    out += chunk
  })
  const [code] = await ended
  assert.equal(code, 130, out)
  assert.match(out, /\ncleaned\n/)
  assert.match(out, /cancelled: Interrupted/)
  assert.deepEqual(await readdir(temporary.path), [])
})

test('when its output is closed it ends silently, and leaves nothing behind', async () => {
  await using project = await projectWith({
    'long.yml': 'steps:\n  - run: yes | head -c 2000000; sleep 100\n',
  })
  await using temporary = await temporaryFolder()
  const child = start(project.path, ['run'], { TMPDIR: temporary.path })
  const ended = once(child, 'close')
  child.stdout.once('data', () => child.stdout.destroy())
  assert.equal(await text(child.stderr), '')
  assert.deepEqual(await ended, [1, null])
  assert.deepEqual(await readdir(temporary.path), [])
})

test('a push has the payload of the server, with the last commit', async () => {
  await using project = await projectWith({
    'push.yml': `
on: push
jobs:
  show:
    runs-on: ubuntu-latest
    steps:
      - run: echo "\${{ github.event.head_commit.message }}, \${{ github.event.before }}, \${{ github.event.repository.default_branch }}"
`,
  })
  const before = (await project.git('rev-parse', 'HEAD^')).trim()
  const ran = await svc(project.path, ['run', '--event', 'push'])
  assert.equal(ran.code, 0, ran.err)
  assert.ok(ran.out.includes(`\nWorkflows, ${before}, main\n`), ran.out)
})

test('secrets come from a file, too', async () => {
  await using project = await projectWith({
    'show.yml': 'steps:\n  - run: echo "$A $B"; echo "${#A} ${#B}"\n',
  })
  await writeFile(
    join(project.path, 'secrets.env'),
    '# mine\nexport A="first value"\nB=second=value\n',
  )
  const ran = await svc(project.path, ['run', '--secrets-file', 'secrets.env'])
  assert.equal(ran.code, 0, ran.err)
  assert.match(ran.out, /\n\*\*\* \*\*\*\n11 12\n/)
  assert.doesNotMatch(ran.out, /first value|second=value/)
  const bad = await svc(project.path, ['run', '--secrets-file', 'readme.txt'])
  assert.match(bad.err, /a line that is not NAME=value/)
})

async function projectWith(workflows: Record<string, string>): Promise<Project> {
  const project = await createProject()
  for (const [name, content] of Object.entries(workflows)) {
    await write(join(project.path, '.svc/workflows', name), content)
  }
  await project.git('add', '.svc')
  await project.git('commit', '--quiet', '-m', 'Workflows')
  return project
}

async function write(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, content)
}

function start(cwd: string, args: string[], env: Record<string, string>) {
  return spawn(launcher, args, {
    cwd,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

async function svc(
  cwd: string,
  args: string[],
  env: Record<string, string> = {},
  more: string[] = [],
) {
  const child = start(cwd, [...args, ...more], env)
  const [out, err, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  return { code, out, err }
}
