import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type ClientHome, loggedIn } from '../support/client-home.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { without } from '../support/programs.ts'
import { failRun, openShell, type ShellSite, startShellSite } from '../support/shell-site.ts'
import { oneStep, pushFiles, runToEnd } from '../support/workflow-site.ts'

const options = { skip: without('bubblewrap'), timeout: 120_000 }

let site: ShellSite
let home: ClientHome

before(async () => {
  if (options.skip) return
  site = await startShellSite()
  home = await loggedIn(site.service)
})

after(async () => {
  await home?.[Symbol.asyncDispose]()
  await site?.[Symbol.asyncDispose]()
})

test(
  'a shell has the files, the variables and the secrets of the failed step',
  options,
  async () => {
    const { admin } = site.service
    await admin.post('/repos', { name: 'site' })
    await admin.put('/repos/site/secrets/TOKEN', { value: 'hunter2-hunter2' })
    await failRun(admin, 'site')
    const input = [
      'pwd; cat left.txt ../cleaned ~/mine /tmp/mine',
      'echo "$COLOR $ADDED $OWN $TOKEN $SECRETLY $GITHUB_JOB $SVC_RUN_NUMBER"',
      'git log --format=%s; test -f "$GITHUB_ENV" && test -f "$GITHUB_EVENT_PATH" && echo files',
      'echo new >new.txt; exit 7',
    ].join('\n')
    const { code, out, err } = await home.run(['runs', 'shell', 'site', '1'], { input })
    assert.equal(code, 7, err)
    assert.deepEqual(out.split('\n'), [
      ...['/workspace/deep', 'left', 'cleaned', 'home', 'temporary'],
      'blue yes step hunter2-hunter2 hunter2-hunter2-1 steps 1',
      ...['Files', 'files', ''],
    ])
    const again = await home.run(['runs', 'shell', 'site'], { input: 'cat new.txt\n' })
    assert.deepEqual([again.code, again.out], [0, 'new\n'], again.err)
  },
)

test('a shell on a terminal has its size, and its keys are for the shell', options, async () => {
  await failRun(site.service.admin, 'terminal')
  const { code, shown } = await home.onTerminal(
    ['runs', 'shell', 'terminal', '1'],
    [
      [/\$ $/, 'tty; stty size; echo "on $TERM"; sleep 1000\r'],
      [/on xterm/, '\x03'],
      [/\^C[\s\S]*\$ $/, 'echo "interrupted $?"; sleep 1000\r'],
      [/interrupted 130/, '\x03'],
      [/interrupted[\s\S]*\^C[\s\S]*\$ $/, 'exit 5\r'],
    ],
    { columns: 93 },
  )
  assert.equal(code, 5, shown)
  assert.match(shown, /Shell in the job steps\. Secrets are not masked\./)
  assert.match(shown, /\/dev\/pts\/0\r+\n\d+ 93\r+\n/)
})

test('more input and output than fits on the way arrives whole', {
  ...exhaustive,
  ...options,
}, async () => {
  await failRun(site.service.admin, 'large')
  const line = 'x'.repeat(99)
  const input = `head -c 1000000 /dev/zero | tr '\\0' y; cat >copy <<'END'\n${`${line}\n`.repeat(10_000)}END\nwc -c <copy\n`
  const { code, out, err } = await home.run(['runs', 'shell', 'large', '1'], { input })
  assert.equal(code, 0, err)
  assert.equal(
    out.replace(/y+/, (all) => `${all.length} `),
    '1000000 1000000\n',
  )
})

test('requests that are repeated have no further effect', options, async () => {
  const { admin } = site.service
  await failRun(admin, 'repeated')
  const shell = await openShell(admin, 'repeated')
  const piece = { start: 0, data: Buffer.from('echo once; cat >/dev/null\n').toString('base64') }
  const first = await admin.post(`${shell.path}/input`, piece)
  const second = await admin.post(`${shell.path}/input`, piece)
  assert.deepEqual([first.body, second.body], [{ next: 26 }, { next: 26 }])
  const beyond = await admin.post(`${shell.path}/input`, { ...piece, start: 27 })
  assert.equal(beyond.status, 400)
  await shell.shows(/^once\n$/)
  const read = async (after: number) =>
    (await admin.get(`${shell.path}/output?after=${after}`)).body
  const once = Buffer.from('once\n').toString('base64')
  assert.deepEqual(await read(0), { data: once, next: 5, end: null })
  assert.deepEqual(await read(5), { data: '', next: 5, end: null })
  assert.deepEqual(await read(0), { data: '', next: 5, end: null })
  assert.equal((await admin.get(`${shell.path}/output?after=6`)).status, 400)
  assert.equal((await admin.delete(shell.path)).status, 204)
  assert.deepEqual(await shell.ended(), { exitCode: null, reason: 'Its user closed it.' })
  assert.equal((await admin.delete(shell.path)).status, 204)
})

test('a run has one shell at a time, which says who opened it', options, async () => {
  const { admin } = site.service
  await failRun(admin, 'busy')
  const shell = await openShell(admin, 'busy')
  const { status, body } = await admin.post('/repos/busy/workflows/1/shells', {})
  assert.deepEqual([status, body.code], [409, 'shell_open'])
  assert.match(body.detail, /is open by admin/)
  await shell.write('exit 2\n')
  assert.deepEqual(await shell.ended(), { exitCode: 2, reason: '' })
  const next = await openShell(admin, 'busy')
  await next.write('', true)
  assert.deepEqual(await next.ended(), { exitCode: 0, reason: '' })
})

test('of several failed jobs, one is to be named', { ...exhaustive, ...options }, async () => {
  const { admin } = site.service
  const text = `jobs:
  one: { steps: [{ run: echo 1 >which; false }] }
  two: { steps: [{ run: echo 2 >which; false }] }
  fine: { steps: [{ run: echo 3 >which }] }
  mild: { steps: [{ run: false, continue-on-error: true }] }`
  await failRun(admin, 'several', text)
  const all = await home.run(['runs', 'shell', 'several', '1'])
  assert.equal(all.code, 1)
  assert.match(all.err, /must name one job: run 1 has the workspaces of "(one", "two|two", "one)"/)
  const two = await home.run(['runs', 'shell', 'several', '1', '--job', 'two'], {
    input: 'cat which',
  })
  assert.equal(two.out, '2\n', two.err)
  const fine = await home.run(['runs', 'shell', 'several', '1', '--job', 'fine'])
  assert.match(fine.err, /names no job whose workspace is kept/)
})

test('where there is no workspace, the error says why', { ...exhaustive, ...options }, async () => {
  const { admin } = site.service
  await pushFiles(admin, 'none', oneStep('echo fine'))
  await runToEnd(admin, 'none')
  const succeeded = await home.run(['runs', 'shell', 'none', '1'])
  assert.equal(succeeded.code, 1)
  assert.match(succeeded.err, /Run 1 ended with success; only the workspaces of failed jobs/)
  await pushFiles(admin, 'none', {
    '.svc/workflows/ci.yml': 'steps: [{ uses: actions/setup-go@v5, with: { go-version: "0.1" } }]',
  })
  await runToEnd(admin, 'none')
  const early = await home.run(['runs', 'shell', 'none'])
  assert.match(early.err, /Run 2 has no workspace: .*SVC_FAILED_WORKSPACE_SECONDS is not 0/)
  await pushFiles(admin, 'none', oneStep('sleep 4714101'))
  const queued = await admin.post('/repos/none/workflows', {})
  const running = await home.run(['runs', 'shell', 'none', queued.body.id])
  assert.match(running.err, /Run 3 has not completed/)
  await admin.post(`/repos/none/workflows/3/cancel`)
  const unknown = await home.run(['runs', 'shell', 'none', '77'])
  assert.match(unknown.err, /There is no run with the number or id "77"/)
})

test('the walls of the sandbox hold in a shell', options, async () => {
  const { admin, dataDir, url } = site.service
  await failRun(admin, 'walls')
  const { port } = new URL(url)
  const input = [
    `ls ${dataDir} /root /run 2>&1 | grep -c 'No such file'`,
    'ls / | tr "\\n" " "; echo',
    `(exec 3<>/dev/tcp/127.0.0.1/${port}) 2>/dev/null || echo unreachable`,
    'touch /usr/x 2>/dev/null || echo read-only',
    'unshare -U true 2>/dev/null || echo no namespaces',
    `ps ax 2>/dev/null | grep -c svc; ls /proc | grep -c '^[0-9]'`,
    'id -u; cat /proc/self/status | grep -E "^(NoNewPrivs|CapEff)"',
  ].join('\n')
  const { out, err } = await home.run(['runs', 'shell', 'walls', '1'], { input })
  const lines = out.split('\n')
  assert.equal(lines[0], '3', out + err)
  assert.ok(!/data|svc-test/.test(lines[1] ?? ''), out)
  assert.deepEqual(lines.slice(2, 5), ['unreachable', 'read-only', 'no namespaces'], out)
  assert.deepEqual(
    lines.slice(-4, -1),
    ['1001', 'CapEff:\t0000000000000000', 'NoNewPrivs:\t1'],
    out,
  )
})

test('the shell begins and ends in the audit log', options, async () => {
  const { admin } = site.service
  const run = await failRun(admin, 'audited')
  const shell = await openShell(admin, 'audited')
  await shell.write('exit 4\n')
  await shell.ended()
  const { body } = await admin.get('/audit?repository=audited')
  const entries = body.filter((one: { action: string }) => one.action.startsWith('run_shell.'))
  assert.deepEqual(
    entries.map((one: { action: string; actor: object; via: string; data: object }) => [
      ...[one.action, one.actor, one.via, one.data],
    ]),
    [
      [
        'run_shell.closed',
        entries[1].actor,
        'server',
        {
          ...{ runId: run.id, shellId: shell.id, exitCode: 4, reason: '' },
          seconds: entries[0].data.seconds,
        },
      ],
      [
        'run_shell.opened',
        entries[1].actor,
        'api',
        { runId: run.id, shellId: shell.id, job: 'steps' },
      ],
    ],
  )
  assert.equal(entries[1].actor.username, 'admin')
  assert.ok(Number.isInteger(entries[0].data.seconds))
})
