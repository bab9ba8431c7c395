import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, type Project } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'
import { commitFiles, startPushSite } from '../support/waiting-push.ts'
import { endOf, logOf, pushFiles, runToEnd } from '../support/workflow-site.ts'

const options = { skip: without('bubblewrap'), timeout: 120_000 }

// Runs work in a namespace as they do elsewhere.
const site = 'team/site'

let service: Service
let project: Project
/** The commits of main, the oldest first; the second one has the tag v1. */
let commits: string[]

before(async () => {
  service = await startService({ env: { SVC_RUNNER: 'on' } })
  project = await createProject()
  const { admin } = service
  await admin.post('/namespaces', { name: 'team' })
  await admin.post('/repos', { name: site })
  await project.commit('second.txt')
  await project.git('tag', '-a', 'v1', '-m', 'Version 1')
  await project.git('tag', 'light')
  await project.git('branch', 'topic')
  await project.commit('third.txt')
  const list = await project.git('rev-list', '--reverse', 'HEAD')
  commits = list.split('\n')
  await project.git('push', '--quiet', admin.remote(site), 'main', 'topic', 'v1', 'light')
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

/** Commits and pushes a workflow of the given steps, and runs it. */
async function runSteps(steps: string) {
  const text = `on: workflow_dispatch\njobs:\n  one:\n    runs-on: ubuntu-latest\n    steps:\n${steps}`
  await commitFiles(project, { '.svc/workflows/ci.yml': text })
  await project.git('push', '--quiet', service.admin.remote(site), 'main')
  const run = await runToEnd(service.admin, site)
  return { ...run, log: await logOf(service.admin, site, run.id) }
}

/** A checkout with some inputs, and a script in the step `after`. */
const checkout = (inputs: string, script: string) => `
      - { id: checkout, uses: actions/checkout@v4, with: ${inputs} }
      - name: after
        run: |
${script.replace(/^ */gm, '          ')}
`

function outputOf({ result, log }: Awaited<ReturnType<typeof runSteps>>, name: string): string[] {
  const { steps } = result ?? assert.fail(log)
  const step = steps.find((one: { name: string }) => one.name === name) ?? assert.fail(log)
  assert.equal(step.conclusion, 'success', log)
  return step.output.trimEnd().split('\n')
}

test('fetch-depth 0 fetches the history with all branches and tags', {
  ...exhaustive,
  ...options,
}, async () => {
  const run = await runSteps(`
      - run: echo kept > left.txt
${checkout(
  '{ fetch-depth: 0 }',
  `git rev-parse --is-shallow-repository
  git rev-list --count v1
  git describe --match 'v*' HEAD~1 | sed 's/-.*//'
  git tag
  git branch --all --format='%(refname)'
  git diff --name-only HEAD~1
  git status --short --branch`,
)}`)
  assert.deepEqual(outputOf(run, 'after'), [
    'false',
    '2',
    'v1',
    'light',
    'v1',
    'refs/heads/main',
    'refs/remotes/origin/main',
    'refs/remotes/origin/topic',
    '.svc/workflows/ci.yml',
    '## main...origin/main',
    '?? left.txt',
  ])
})

test('fetch-depth fetches as many commits, and fetch-tags adds tags', options, async () => {
  const script = `git rev-list --count HEAD
  git rev-parse --is-shallow-repository
  git tag
  git branch --all --format='%(refname)'`
  const refs = ['refs/heads/main', 'refs/remotes/origin/main']
  const two = await runSteps(checkout('{ fetch-depth: 2 }', script))
  assert.deepEqual(outputOf(two, 'after'), ['2', 'true', ...refs])
  const tags = await runSteps(checkout('{ fetch-tags: true }', script))
  assert.deepEqual(outputOf(tags, 'after'), ['1', 'true', 'light', 'v1', ...refs])
})

test('a checkout into a folder leaves the top of the workspace empty', options, async () => {
  const run = await runSteps(
    checkout(
      `{ path: "\${{ github.workspace }}/src/a b" }`,
      `ls -A
  cd 'src/a b'
  ls
  git status --short --branch
  git log --format=%s
  echo '\${{ steps.checkout.outputs.ref }} \${{ steps.checkout.outputs.commit }}'`,
    ),
  )
  const head = await project.git('rev-parse', 'HEAD')
  assert.deepEqual(outputOf(run, 'after'), [
    'src',
    'readme.txt',
    'second.txt',
    'third.txt',
    '## main...origin/main',
    'Files',
    `refs/heads/main ${head}`,
  ])
})

test('a ref is a branch, a tag or a commit, beside that of the run', options, async () => {
  const [first = '', second = ''] = commits
  for (const [ref, commit, ...shown] of [
    ['topic', second, '## topic...origin/topic'],
    ['refs/heads/topic', second, '## topic...origin/topic'],
    ['v1', second, '## HEAD (no branch)', 'refs/tags/v1 tag'],
    [first, first, '## HEAD (no branch)'],
  ] as const) {
    const run = await runSteps(
      checkout(
        `{ ref: "${ref}", path: old }`,
        `git -C old rev-parse HEAD; git -C old status --short --branch
  git -C old for-each-ref refs/tags --format='%(refname) %(objecttype)'`,
      ),
    )
    assert.deepEqual(outputOf(run, 'after'), [commit, ...shown], ref)
  }
})

test('a ref that does not exist fails the step, and hidden refs do not exist', {
  ...exhaustive,
  ...options,
}, async () => {
  // Overwritten commits are kept under hidden refs.
  await project.git('push', '--quiet', service.admin.remote(site), 'main:forced')
  await project.git('push', '--quiet', '--force', service.admin.remote(site), 'topic:forced')
  const retained = `refs/svc/kept/${await project.git('rev-parse', 'main')}`
  for (const ref of [
    'gone',
    retained,
    '../../../etc/passwd',
    'main~1',
    commits.join().slice(0, 8),
  ]) {
    const run = await runSteps(checkout(`{ ref: "${ref}" }`, 'true'))
    assert.equal(run.conclusion, 'failure', ref)
    assert.match(run.log, /There is no branch, tag or commit \S+ in the repository/)
  }
})

test('a second checkout replaces the files, and removes others unless clean is off', {
  ...exhaustive,
  ...options,
}, async () => {
  const script = 'ls; git log -1 --format=%s'
  const again = (inputs: string) => `
      - uses: actions/checkout@v4
      - run: echo x > extra.txt; echo changed > readme.txt; git config core.hooksPath hooks; git commit -qam Own || true
${checkout(inputs, script)}`
  const cleaned = await runSteps(again('{ ref: v1 }'))
  assert.deepEqual(outputOf(cleaned, 'after'), ['readme.txt', 'second.txt', 'Add second.txt'])
  const kept = await runSteps(again('{ ref: v1, clean: false }'))
  const names = ['extra.txt', 'readme.txt', 'second.txt', 'Add second.txt']
  assert.deepEqual(outputOf(kept, 'after'), names)
  const same = await runSteps(again('{}'))
  const files = ['readme.txt', 'second.txt', 'third.txt', 'Files']
  assert.deepEqual(outputOf(same, 'after'), files)
})

test(
  'a run that is repeated gets its own commit, although the branch has moved',
  options,
  async () => {
    const script = 'git rev-parse HEAD origin/main; git rev-list --count HEAD'
    const run = await runSteps(checkout('{ fetch-depth: 0 }', script))
    const before = outputOf(run, 'after')
    await commitFiles(project, { 'later.txt': 'later' })
    await project.git('push', '--quiet', service.admin.remote(site), 'main')
    await service.admin.post(`/repos/${encodeURIComponent(site)}/workflows/${run.id}/rerun`)
    const again = await endOf(service.admin, site, run.id)
    assert.deepEqual(outputOf({ ...again, log: run.log }, 'after'), before)
  },
)

test('a push that waits has its commits with their history', options, async () => {
  await using site = await startPushSite(service, service.admin, 'waited')
  await commitFiles(site.project, { 'one.txt': '1' })
  const steps = checkout('{ fetch-depth: 0 }', 'test "$(git rev-list --count HEAD)" = 3')
  await commitFiles(site.project, {
    '.svc/workflows/ci.yml': `on: push\njobs:\n  one:\n    runs-on: ubuntu-latest\n    steps:\n${steps}`,
  })
  const { code, text } = await site.push(['wait'], ['HEAD:main']).ended
  assert.equal(code, 0, text)
})

test('an annotated tag is itself in its runs, however deep the history', options, async () => {
  await using site = await startPushSite(service, service.admin, 'tagged')
  const script = `git cat-file -t "$GITHUB_REF"
  git rev-parse "$GITHUB_REF" "$GITHUB_REF^{commit}" HEAD
  git fsck --no-dangling`
  const inputs = ['{}', '{ fetch-depth: 2 }', '{ fetch-depth: 0 }', '{ fetch-tags: true }']
  const steps = inputs
    .map((given) => checkout(given, script).replace('id: checkout, ', ''))
    .map((step, index) => step.replace('name: after', `name: after-${index}`))
    .join('')
  const commit = await commitFiles(site.project, {
    '.svc/workflows/ci.yml': `on:\n  push: { tags: ['*'] }\n  workflow_dispatch:\njobs:\n  one:\n    runs-on: ubuntu-latest\n    steps:\n${steps}`,
  })
  const shown = async (id: string, object: string, type: string) => {
    const run = await endOf(service.admin, 'tagged', id)
    const log = await logOf(service.admin, 'tagged', id)
    for (const index of inputs.keys())
      assert.deepEqual(outputOf({ ...run, log }, `after-${index}`), [type, object, commit, commit])
  }
  const { git } = site.project
  await git('tag', 'light')
  await git('tag', '--annotate', 'release', '--message', 'A release')
  await git('tag', '--annotate', 'nested', '--message', 'A tag of a tag', 'release')
  const pushed = new Map<string, { id: string; object: string; type: string }>()
  for (const tag of ['light', 'release', 'nested']) {
    const { code, text } = await site.push(['wait'], [tag]).ended
    assert.equal(code, 0, text)
    // The first run began before the tag was there, the second one after that.
    const ids = (await site.runs()).map(({ id }: { id: string }) => id)
    const started = await service.admin.post('/repos/tagged/workflows', {
      branch: `refs/tags/${tag}`,
    })
    const object = await git('rev-parse', `refs/tags/${tag}`)
    const type = tag === 'light' ? 'commit' : 'tag'
    await shown(ids.at(-1), object, type)
    await shown(started.body.id, object, type)
    pushed.set(tag, { id: ids.at(-1), object, type })
  }
  await git('tag', '--force', '--annotate', 'release', '--message', 'Another release')
  const moved = await site.push(['ci.skip'], ['--force', 'release']).ended
  assert.equal(moved.code, 0, moved.text)
  const { id, object, type } = pushed.get('release') ?? assert.fail()
  await service.admin.post(`/repos/tagged/workflows/${id}/rerun`)
  await shown(id, object, type)
})

test('a folder that a step has prepared gets no further than the step', options, async () => {
  const link = await runSteps(`
      - run: ln -s /etc outside
${checkout('{ path: outside/new }', 'true')}`)
  assert.equal(link.conclusion, 'failure')
  assert.match(link.log, /outside\/new.*Read-only file system|cannot create directory/)
  const lists = await runSteps(`
      - run: mkdir /svc/checkout-refs
${checkout('{ fetch-depth: 0 }', 'true')}`)
  assert.equal(lists.conclusion, 'failure')
  const settings = await runSteps(`
      - run: |
          git init -q old && git -C old config core.fsmonitor 'echo started >&2; false'
          ln -sf /nowhere /svc/checkout-shallow
${checkout('{ path: old, fetch-depth: 2 }', 'git -C old config core.fsmonitor || git -C old rev-list --count HEAD')}`)
  assert.deepEqual(outputOf(settings, 'after'), ['2'])
  assert.doesNotMatch(settings.log, /^started$/m)
})

/** Runs steps that fetch and push by the name of the remote, with a network. */
async function pushFromStep(name: string, inputs: string) {
  await using networked = await startService({
    env: { SVC_RUNNER: 'on', SVC_SANDBOX_NETWORK: 'full' },
  })
  const { admin } = networked
  await pushFiles(admin, name, { 'a.txt': 'a' })
  const { body: other } = await admin.post('/tokens', {
    name: 'writes',
    username: 'admin',
    permissions: ['repo:read', 'repo:write'],
  })
  await admin.put(`/repos/${name}/secrets/WRITES`, { value: other.token })
  await pushFiles(admin, name, {
    '.svc/workflows/ci.yml': `
permissions: { contents: write }
secrets: [WRITES]
jobs:
  one:
    runs-on: ubuntu-latest
    steps:
      - { uses: actions/checkout@v4, with: ${inputs} }
      - run: |
          git fetch --quiet --unshallow && git log --format=%s
          git config --get-regexp 'http.*' || true
          git push --quiet origin HEAD:refs/heads/built
          grep -r '[B]asic ' . || echo none
`,
  })
  await admin.patch(`/repos/${name}`, { runTokens: 'write' })
  const run = await runToEnd(admin, name)
  const pushes = (await admin.get(`/repos/${name}/pushes`)).body
  return { run, log: await logOf(admin, name, run.id), pushes, token: other.token }
}

test('git in steps uses the token of the job, which no file of the workspace has', {
  ...exhaustive,
  ...options,
}, async () => {
  const { run, log, pushes, token } = await pushFromStep('own', '{}')
  assert.equal(run.conclusion, 'success', log)
  assert.match(log, /^Files\nFiles$/m)
  assert.match(log, /^none$/m)
  assert.equal(pushes[0].actor.username, `run-${run.number}[bot]`)
  assert.match(log, /extraheader Authorization: Basic \S*\*\*\*/)
  assert.ok(!log.includes(token))
})

test('git in steps uses another token, or none', { ...exhaustive, ...options }, async () => {
  const other = await pushFromStep('other', `{ token: "\${{ secrets.WRITES }}" }`)
  assert.equal(other.run.conclusion, 'success', other.log)
  assert.equal(other.pushes[0].actor.username, 'admin')
  assert.match(other.log, /extraheader Authorization: Basic \S*\*\*\*/)
  const none = await pushFromStep('none', '{ persist-credentials: false }')
  assert.equal(none.run.conclusion, 'failure')
  assert.match(none.log, /could not read Username|Authentication failed|terminal prompts disabled/)
})
