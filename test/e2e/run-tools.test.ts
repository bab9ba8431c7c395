// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { createProject, type Project } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { startRunner } from '../support/runner.ts'
import { launcher, startService } from '../support/service.ts'
import { createToolCache } from '../support/tool-cache.ts'
import { logOf, pushFiles, runToEnd } from '../support/workflow-site.ts'

const skip = without('bubblewrap')
const version = process.versions.node
const architecture = process.arch

let cache: Awaited<ReturnType<typeof createToolCache>>

/** A tool cache with the real Node of these tests, and a script in the place of an older one. */
before(async () => {
  cache = await createToolCache({
    [`node/20.1.0/${architecture}/bin/node`]: 'echo v20.1.0',
  })
  await cache.copy(`node/${version}/${architecture}/bin/node`, process.execPath)
})

after(() => cache[Symbol.asyncDispose]())

const matrix = `
on: push
jobs:
  test:
    runs-on: ubuntu-latest
    strategy: { matrix: { node: ['20', '${version.split('.')[0]}.x'] } }
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with:
          node-version: \${{ matrix.node }}
          cache: npm
      - run: node --version
      - if: matrix.node != '20'
        run: node main.mjs
`

const program = "console.log('ran by', process.version, process.execPath)\n"

test('svc run uses the tools of this machine by version', { skip }, async () => {
  await using project = await projectWith({ '.svc/workflows/ci.yml': matrix, 'main.mjs': program })
  const { code, out, err } = await svc(project.path, ['run'], { SVC_TOOLS: cache.path })
  assert.equal(code, 0, out + err)
  assert.match(out, /^test \(20\) \| v20\.1\.0$/m)
  const path = join(cache.path, 'node', version, architecture, 'bin/node')
  assert.ok(out.includes(`| ran by v${version} ${path}\n`), out)
})

test('a runner of a server uses its tools by version', { skip }, async () => {
  await using service = await startService({ env: { SVC_RUNNER: 'off' } })
  const { token } = await service.client({ permissions: ['runner'] })
  await pushFiles(service.admin, 'site', { '.svc/workflows/ci.yml': matrix, 'main.mjs': program })
  await using runner = await startRunner({
    ...{ server: service.url, token },
    env: { SVC_TOOLS: cache.path },
  })
  const run = await runToEnd(service.admin, 'site', { files: ['ci.yml'] })
  const log = await logOf(service.admin, 'site', run.id)
  assert.equal(run.conclusion, 'success', log + runner.log())
  assert.match(log, new RegExp(`ran by v${version.replaceAll('.', '\\.')} `))
})

test('the runner of a server uses the tools of its settings, and refuses others', {
  skip,
}, async () => {
  await using service = await startService({ env: { SVC_RUNNER: 'on', SVC_TOOLS: cache.path } })
  const text = matrix.replace("'20',", "'20', '19',")
  await pushFiles(service.admin, 'site', { '.svc/workflows/ci.yml': text, 'main.mjs': program })
  const run = await runToEnd(service.admin, 'site', { files: ['ci.yml'] })
  const log = await logOf(service.admin, 'site', run.id)
  assert.equal(run.conclusion, 'failure')
  assert.match(
    log,
    /test \(19\) \| .*This runner has no Node\.js "19" \(node-version\)\. It has .*20\.1\.0/,
  )
})

test('the check says which tools this machine lacks', { skip }, async () => {
  const more = `
      - uses: actions/setup-go@v5
        with: { go-version-file: go.mod }
      - uses: actions/setup-node@v4
        with: { node-version: "\${{ github.event.inputs.node }}" }
`
  const text = matrix.replace("'20',", "'20', '19',").trimEnd() + more
  await using project = await projectWith({
    ...{ '.svc/workflows/ci.yml': text, 'main.mjs': program },
    'go.mod': 'module x\n\ngo 9.99\n',
  })
  const { code, out, err } = await svc(project.path, ['run', '--check'], { SVC_TOOLS: cache.path })
  assert.equal(code, 0, err)
  assert.equal(out, '.svc/workflows/ci.yml: fine, its job can run\n')
  const lines = err.split('\n').filter((line) => line.includes('This runner'))
  assert.match(
    lines[0] ?? '',
    /^\.svc\/workflows\/ci\.yml:9:9: note: This runner has no Node\.js "19"/,
  )
  assert.match(lines[1] ?? '', /^\.svc\/workflows\/ci\.yml:16:9: note: This runner has no Go/)
  assert.equal(lines.length, 2, err)
})

test('svc runner doctor lists the tools, the isolation and what is not usable', {
  skip,
}, async () => {
  await using incomplete = await createToolCache(
    { 'go/1.22.0/x64/bin/go': '' },
    { incomplete: ['go/1.22.0/x64/bin/go'] },
  )
  const env = { SVC_TOOLS: `${cache.path}:${incomplete.path}` }
  const { code, out } = await svc('/', ['runner', 'doctor'], env)
  assert.equal(code, 0, out)
  assert.match(out, /^ok +git +git 2\./m)
  assert.match(out, /^ok +sandbox +Steps run in bubblewrap/m)
  assert.match(out, new RegExp(`^ok +tools +Node\\.js ${version}, 20\\.1\\.0[;.]`, 'm'))
  assert.match(out, /^warning +tools +\S+\/go\/1\.22\.0\/x64 is incomplete, and not used/m)
  assert.match(out, /^6 checks: no faults, /m)
  const json = await svc('/', ['runner', 'doctor', '--json'], env)
  assert.ok(JSON.parse(json.out).some((one: { check: string }) => one.check === 'tools'))
})

test('a runner without the address of a server is refused, and a hidden folder of tools', async () => {
  const { code, err } = await svc('/', ['runner'])
  assert.deepEqual([code, err], [2, 'svc: --server: the address of the service is required.\n'])
  await using project = await projectWith({ '.svc/workflows/ci.yml': matrix })
  const dataDir = join(project.path, 'data')
  await mkdir(dataDir)
  const env = { SVC_DATA_DIR: dataDir, SVC_TOOLS: project.path }
  const doctor = await svc('/', ['runner', 'doctor'], env)
  assert.match(doctor.out, /SVC_TOOLS must not contain .*: steps could read the data directory/)
})

async function projectWith(files: Record<string, string>): Promise<Project> {
  const project = await createProject()
  await mkdir(join(project.path, '.svc/workflows'), { recursive: true })
  for (const [path, text] of Object.entries(files)) await writeFile(join(project.path, path), text)
  await project.git('add', '.')
  await project.git('commit', '--quiet', '-m', 'Files')
  return project
}

async function svc(cwd: string, args: string[], env: Record<string, string> = {}) {
  const options = { cwd, env: { PATH: process.env.PATH, SVC_FREE_SPACE_MIN: '0', ...env } }
  try {
    const { stdout, stderr } = await promisify(execFile)(launcher, args, options)
    return { code: 0, out: stdout, err: stderr }
  } catch (error) {
    const { code, stdout, stderr } = Object(error)
    return { code, out: String(stdout), err: String(stderr) }
  }
}
