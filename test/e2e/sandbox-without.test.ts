// Tags: exhaustive
import assert from 'node:assert/strict'
import { access, chmod, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { probeSandbox, type SandboxOptions } from '#actions/sandbox/open-sandbox.ts'
import { temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import {
  openTestSandbox,
  pathWithoutBubblewrap,
  runningIn,
  systemPath,
  type TestSandbox,
} from '../support/sandbox.ts'
import { testAsUnprivilegedUser, withoutUnprivilegedUser } from '../support/unprivileged-user.ts'

const file = fileURLToPath(import.meta.url)
const isRoot = process.getuid?.() === 0
const options = { timeout: 600_000 }

test(
  'without bubblewrap a step runs, and the isolation says why there is none',
  options,
  async () => {
    await using place = await withoutBubblewrap()
    const { isolation } = place.sandbox.sandbox
    assert.deepEqual([isolation.kind, isolation.network], ['none', 'full'])
    assert.match(isolation.description, /bubblewrap is not installed: apt-get install bubblewrap/)
    const { exitCode, output } = await place.sandbox.run('pwd; touch a; echo b >&2; exit 4')
    const { inside } = place.sandbox.workspace
    assert.deepEqual([exitCode, output], [4, `${inside.workspace}\nb\n`])
    const nowhere = await place.sandbox.run('ln -s loop loop; true')
    assert.equal(nowhere.exitCode, 0)
    for (const name of ['none', 'loop', 'a']) {
      const end = await place.sandbox.run('pwd', { cwd: `${inside.workspace}/${name}` })
      assert.equal(end.reason, 'not-started')
      assert.match(end.detail, /^The working directory \S+ does not exist/)
    }
  },
)

test(
  'if a sandbox is required and bubblewrap is missing, there are no workspaces',
  options,
  async () => {
    await using programs = await temporaryFolder()
    const path = await pathWithoutBubblewrap(programs.path)
    await assert.rejects(
      openTestSandbox({ path, mode: 'require' }),
      /a sandbox is required, and bubblewrap does not work here: bubblewrap is not installed/,
    )
  },
)

test('a trial that fails once does not disable the sandbox', {
  ...options,
  skip: without('bubblewrap'),
}, async () => {
  await using programs = await temporaryFolder()
  // Bubblewrap is started by the user of the job.
  await chmod(programs.path, 0o777)
  const mark = join(programs.path, 'failed')
  const program = `#!/bin/sh\n[ -e ${mark} ] && exec /usr/bin/bwrap "$@"\ntouch ${mark}; exit 1\n`
  await writeFile(join(programs.path, 'bwrap'), program, { mode: 0o755 })
  const path = `${programs.path}:${systemPath}`
  await using sandbox = await openTestSandbox({ path, mode: 'auto', ownUserAllowed: true })
  assert.equal(sandbox.sandbox.isolation.kind, 'bubblewrap')
  assert.equal((await sandbox.run('true')).exitCode, 0)
  await access(mark)
})

test('a bubblewrap that fails counts as missing, and its error is reported', options, async () => {
  await using place = await withoutBubblewrap(
    '#!/bin/sh\necho bwrap: no namespaces here >&2; exit 1\n',
  )
  const { isolation } = place.sandbox.sandbox
  assert.equal(isolation.kind, 'none')
  assert.match(isolation.description, /does not work here: .*bwrap: no namespaces here/)
})

test("steps with the rights of the runner's user are rejected, unless the sandbox is none", {
  ...options,
  skip: isRoot && 'root gives each job a user of its own',
}, async () => {
  await using programs = await temporaryFolder()
  const path = await pathWithoutBubblewrap(programs.path)
  await assert.rejects(
    openTestSandbox({ path, mode: 'auto' }),
    /^Error: Steps do not run here: .*own user.*apt-get install bubblewrap.*SVC_SANDBOX=none/,
  )
  const { isolation, choice } = await probe({ mode: 'auto', path })
  assert.deepEqual([isolation.kind, choice], ['none', 'refused'])
  await using sandbox = await openTestSandbox({ path, mode: 'none' })
  assert.match(
    sandbox.sandbox.isolation.description,
    /as the runner's own user, .*SVC_SANDBOX is none/,
  )
  assert.equal((await sandbox.run('echo works')).output, 'works\n')
})

test('with the sandbox none, bubblewrap is not used', options, async () => {
  await using sandbox = await openTestSandbox({ mode: 'none' })
  const { isolation } = sandbox.sandbox
  assert.deepEqual([isolation.kind, isolation.network], ['none', 'full'])
  assert.equal((await sandbox.run('pwd')).output, `${sandbox.workspace.outside.workspace}\n`)
})

test('the probe reports the isolation', options, async () => {
  const { isolation, fault } = await probe({ mode: 'auto' })
  assert.equal(isolation.kind === 'bubblewrap', fault === undefined)
})

test('if a sandbox is required, the probe says that no step will run', options, async () => {
  await using programs = await temporaryFolder()
  const path = await pathWithoutBubblewrap(programs.path)
  const { isolation, fault } = await probe({ mode: 'require', path })
  assert.match(fault ?? '', /bubblewrap is not installed/)
  assert.match(isolation.description, /^Steps do not run here: .*bubblewrap is not installed/)
})

const holders = {
  'a step that sleeps for ever': 'sleep 1000',
  'one that ignores SIGTERM': 'trap "" TERM; while :; do sleep 1; done',
  'one that has stopped itself': 'kill -STOP $$',
  'a fork bomb': ':(){ :|:& };:; sleep 1000',
  'one that takes memory': `for i in 1 2 3 4; do perl -e '$x = "a" x (100 << 20); sleep 1000' & done; wait`,
}
for (const [what, script] of Object.entries(holders)) {
  test(`without bubblewrap, ${what} is ended, too`, options, async () => {
    await using place = await withoutBubblewrap()
    const takesMemory = what === 'one that takes memory'
    const { reason } = await place.sandbox.run(script, takesMemory ? {} : { timeoutMs: 1500 })
    assert.equal(reason, takesMemory ? 'out-of-memory' : 'timed-out')
    assert.deepEqual(runningIn(place.sandbox.workspace), [])
    assert.deepEqual(await place.sandbox.close(), { processes: [], files: place.files })
  })
}

test(
  'without bubblewrap, children in their own session end with the step, too',
  options,
  async () => {
    await using place = await withoutBubblewrap()
    const { exitCode } = await place.sandbox.run('(setsid sleep 1000 &) ; sleep 1000 & exit 3')
    assert.equal(exitCode, 3)
    assert.deepEqual(runningIn(place.sandbox.workspace), [])
  },
)

test('without bubblewrap, steps of root are not root, and can neither access another workspace nor become root', {
  ...options,
  skip: !isRoot && 'only root can run as another user',
}, async () => {
  await using place = await withoutBubblewrap()
  await using other = await place.sandbox.sandbox.openWorkspace()
  const script = `id -u; id -G; cat ${other.outside.workspace}/a; ls ${other.outside.workspace}; kill -9 -1`
  const { output } = await place.sandbox.run(script)
  assert.match(output, /^2\d{9}\n2\d{9}\n(.*Permission denied\n){2}$/)
  assert.match(await readFile('/proc/self/status', 'utf8'), /\nUid:\t0\t/)
  const preload = `${place.sandbox.workspace.inside.files}/absent.so`
  const env = { PATH: '/usr/bin:/bin', LD_PRELOAD: preload }
  const { output: complaints } = await place.sandbox.run('id -u', { env })
  // Every program that complains has the variable: each is the user's, from the first on.
  assert.match(complaints, /cannot be preloaded/)
  assert.match(complaints, /\n2\d{9}\n/)
})

test(
  'all of this holds for an ordinary user',
  {
    ...options,
    skip: await withoutUnprivilegedUser(file),
  },
  () => testAsUnprivilegedUser(file),
)

function probe(more: Pick<SandboxOptions, 'mode'> & Partial<SandboxOptions>) {
  const limits = {
    memoryMaxBytes: 256 * 1024 ** 2,
    processesMax: 100,
    fileMaxBytes: 1024 ** 2,
    freeSpaceMinBytes: 0,
  }
  return probeSandbox({
    path: systemPath,
    network: 'none',
    readOnlyPaths: [],
    hiddenPaths: [],
    limits,
    ...more,
  })
}

/** A sandbox on a machine that has no bubblewrap, or has this program in its place. */
async function withoutBubblewrap(program?: string) {
  const programs = await temporaryFolder()
  const path = await pathWithoutBubblewrap(programs.path)
  if (program) await writeFile(join(path, 'bwrap'), program, { mode: 0o755 })
  const sandbox: TestSandbox = await openTestSandbox({ path, mode: 'auto', ownUserAllowed: true })
  return {
    sandbox,
    // Root's workspaces are in an accessible place, to which a link points.
    files: isRoot ? ['workspaces-elsewhere'] : [],
    async [Symbol.asyncDispose]() {
      const { outside } = sandbox.workspace
      await sandbox[Symbol.asyncDispose]()
      if (isRoot) await rm(join(outside.workspace, '../..'), { recursive: true, force: true })
      await programs[Symbol.asyncDispose]()
    },
  }
}
