import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { exhaustive } from '../support/exhaustive.ts'
import { temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { openTestSandbox, runScript, until } from '../support/sandbox.ts'
import { testAsUnprivilegedUser, withoutUnprivilegedUser } from '../support/unprivileged-user.ts'

const file = fileURLToPath(import.meta.url)
const options = { skip: without('bubblewrap'), timeout: 600_000 }

test(
  'a step cannot see the data directory, nor any other folder of the machine',
  options,
  async () => {
    await using sandbox = await openTestSandbox()
    await writeFile(join(sandbox.folder, 'encryption.key'), 'hidden')
    const script = `cat ${sandbox.folder}/encryption.key; ls -d /root /run /sys /mnt /srv /etc/shadow /etc/ssh`
    const { output } = await sandbox.run(script)
    assert.equal(output.split('\n').filter((line) => /No such file/.test(line)).length, 8)
    assert.ok(!output.includes('hidden'))
  },
)

test('hidden files and folders are hidden within readable paths, too', options, async () => {
  const hiddenPaths = ['/usr/share/doc', '/usr/bin/env', '/usr/share/absent']
  await using sandbox = await openTestSandbox({ hiddenPaths })
  const script =
    'ls /usr/share/doc; cat /usr/bin/env; touch /usr/share/doc/x; ls /usr/share | wc -l'
  const { output } = await sandbox.run(script)
  assert.match(
    output,
    /^(ls: .*\n)?cat: \/usr\/bin\/env: Permission denied\ntouch: .*(denied|Read-only).*\n[1-9]\d+\n$/,
  )
})

test('workspaces within hidden and readable paths work', {
  ...options,
  skip: options.skip || (process.getuid?.() !== 0 && 'root alone can write there'),
}, async () => {
  const data = await mkdtemp('/opt/svc-test-')
  try {
    await chmod(data, 0o755)
    await writeFile(join(data, 'encryption.key'), 'hidden')
    const folder = join(data, 'runner', 'workspaces')
    await using sandbox = await openTestSandbox({ folder, hiddenPaths: [data] })
    const { output } = await sandbox.run(`cat ${data}/*; echo works >a; cat a`)
    assert.ok(!output.includes('hidden') && output.endsWith('works\n'), output)
    await chmod(data, 0o700)
    await using closed = await sandbox.sandbox.openWorkspace()
    assert.equal((await runScript(closed, 'echo works')).output, 'works\n')
  } finally {
    await rm(data, { recursive: true })
  }
})

test('readable paths that contain or are in hidden ones are rejected', options, async () => {
  const hiddenPaths = ['/usr/share/doc']
  for (const path of ['/usr', '/usr/share/doc', '/usr/share/doc/bash']) {
    const refused = openTestSandbox({ hiddenPaths, readOnlyPaths: [path] })
    await assert.rejects(
      refused,
      /SVC_SANDBOX_PATHS and SVC_TOOLS must not contain .*the data directory/,
    )
  }
})

test('nothing of the system is writable', options, async () => {
  await using sandbox = await openTestSandbox()
  const script = 'awk \'$3 == "tmpfs" && $4 ~ /^rw/ { print $2 }\' /proc/mounts'
  assert.equal((await sandbox.run(script)).output, '')
})

test('a step cannot access another workspace', options, async () => {
  await using sandbox = await openTestSandbox()
  await using other = await sandbox.sandbox.openWorkspace()
  await runScript(other, 'echo hidden >a')
  assert.equal(await readFile(join(other.outside.workspace, 'a'), 'utf8'), 'hidden\n')
  const { output } = await sandbox.run(`cat ${other.outside.workspace}/a; ls -d /*svc-workspace*`)
  assert.ok(!output.includes('hidden') && /No such file/.test(output))
})

test('as root, each workspace belongs to its own user', {
  ...options,
  skip: options.skip || (process.getuid?.() !== 0 && 'root alone can give a file away'),
}, async () => {
  await using sandbox = await openTestSandbox()
  await using other = await sandbox.sandbox.openWorkspace()
  const users = [sandbox.workspace, other].map(async (workspace) => {
    const { output } = await runScript(workspace, 'touch a; id -u')
    assert.equal(output, '1001\n')
    return (await stat(join(workspace.outside.workspace, 'a'))).uid
  })
  const [first, second] = await Promise.all(users)
  assert.notEqual(first, second)
  assert.ok(Number(first) >= 2_000_000_000)
})

test('a step sees no processes but its own, and no environment but its own', options, async () => {
  await using sandbox = await openTestSandbox()
  process.env.SVC_TRIAL = 'of-the-runner'
  const script = 'ls /proc | grep -c "^[0-9]"; cat /proc/*/environ | tr "\\0" "\\n" | sort -u'
  const { output } = await sandbox.run(script)
  delete process.env.SVC_TRIAL
  const [processes, ...variables] = output.trim().split('\n')
  assert.ok(Number(processes) < 8, output)
  const names = new Set(variables.map((line) => line.split('=')[0]))
  assert.deepEqual(
    [...names].sort(),
    ['HOME', 'OLDPWD', 'PATH', 'PWD', 'SHLVL', '_'].filter((name) => names.has(name)),
  )
  assert.ok(!/of-the-runner|svc-workspace/.test(output))
})

test('no outside process shows the environment of a step', options, async () => {
  await using sandbox = await openTestSandbox()
  const run = sandbox.run('touch /svc/started; until test -e /svc/go; do sleep 0.01; done', {
    env: { PATH: '/usr/bin', SECRET: 'of-the-step' },
  })
  const { files } = sandbox.workspace.outside
  await until(async () => (await readdir(files)).includes('started'))
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const shown = pids.filter((pid) => readOrNothing(`/proc/${pid}/cmdline`).includes('of-the-step'))
  const wrappers = pids.filter((pid) => readOrNothing(`/proc/${pid}/comm`) === 'bwrap\n')
  const environments = wrappers.map((pid) => readOrNothing(`/proc/${pid}/environ`))
  await writeFile(join(files, 'go'), '')
  await run
  assert.deepEqual(shown, [])
  assert.ok(wrappers.length > 0)
  assert.deepEqual(
    environments.filter((text) => text.includes('of-the-step')),
    [],
  )
})

test('a step can write only to its own folders', options, async () => {
  await using sandbox = await openTestSandbox()
  const places = '/ /usr /usr/bin /etc /dev /dev/pts /home /var /opt /proc /proc/sys/kernel'
  const { output } = await sandbox.run(
    `for place in ${places}; do touch $place/new 2>/dev/null && echo $place; done;
    for file in /etc/passwd /proc/sys/kernel/hostname /proc/sysrq-trigger /usr/bin/env; do
      (echo x >$file) 2>/dev/null && echo $file
    done`,
  )
  assert.equal(output, '')
})

test('a step has no privileges and cannot gain any', options, async () => {
  await using sandbox = await openTestSandbox()
  const { output } = await sandbox.run('id; grep -E "^(NoNewPrivs|Cap)" /proc/self/status')
  assert.match(output, /^uid=1001\(runner\) gid=1001\(runner\) groups=1001\(runner\)\n/)
  assert.match(output, /NoNewPrivs:\t1/)
  assert.deepEqual([...output.matchAll(/^Cap\w+:\t0+$/gm)].length, 5)
  for (const attempt of ['unshare -U true', 'mount -t tmpfs x /tmp', 'su -c id', 'chroot / true']) {
    assert.notEqual((await sandbox.run(attempt)).exitCode, 0, attempt)
  }
  await sandbox.run('cp /usr/bin/id own; chmod 6755 own')
  assert.match((await sandbox.run('./own')).output, /^uid=1001\(runner\) gid=1001\(runner\) groups/)
})

test('signals of a step reach no other processes', options, async () => {
  await using sandbox = await openTestSandbox()
  await using other = await sandbox.sandbox.openWorkspace()
  const run = runScript(other, 'touch /svc/started; sleep 0.5; echo alive')
  await until(async () => (await readdir(other.outside.files)).includes('started'))
  await sandbox.run(`kill -9 -1; kill -9 1 ${process.pid} ${process.ppid}`)
  assert.equal((await run).output, 'alive\n')
})

test('a step has no network, or that of the runner if enabled', options, async () => {
  await using listener = createServer((socket) => socket.end('hello'))
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  const address = listener.address()
  const port = typeof address === 'object' && address?.port
  const script = `exec 3<>/dev/tcp/127.0.0.1/${port} && cat <&3`
  await using closed = await openTestSandbox()
  const refused = await closed.run(`cat /proc/net/route | tail -n +2; ${script}`)
  assert.match(refused.output, /^bash: connect: Connection refused/)
  await using open = await openTestSandbox({ network: 'full' })
  assert.equal((await open.run(script)).output, 'hello')
  assert.equal(open.sandbox.isolation.network, 'full')
})

test(
  'additional paths can be read, not written, and invalid ones are an error',
  options,
  async () => {
    await using folder = await temporaryFolder()
    const tool = '/usr/share/doc'
    await using sandbox = await openTestSandbox({ readOnlyPaths: [tool] })
    assert.equal((await sandbox.run(`ls ${tool} >/dev/null && ! touch ${tool}/x`)).exitCode, 0)
    await mkdir(join(folder.path, 'a'))
    const wrong = openTestSandbox({ readOnlyPaths: [join(folder.path, 'absent')], mode: 'auto' })
    await assert.rejects(wrong, /SVC_SANDBOX_PATHS or SVC_TOOLS cannot be mounted: .*absent/)
  },
)

test(
  'all of this holds for an ordinary user',
  { ...exhaustive, ...options, skip: options.skip || (await withoutUnprivilegedUser(file)) },
  () => testAsUnprivilegedUser(file),
)

function readOrNothing(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
