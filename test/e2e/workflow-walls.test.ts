import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { assertRecovered, type HostileSite, startHostileSite } from '../support/hostile-site.ts'
import { without } from '../support/programs.ts'
import { pushFiles } from '../support/workflow-site.ts'

const options = { skip: without('bubblewrap'), timeout: 600_000 }
const mark = 'mark-of-the-server-4715002'
const otherSecret = 'secret-of-another-4715003'

let site: HostileSite

before(async () => {
  if (options.skip) return
  site = await startHostileSite({ MARK_OF_THE_SERVER: mark, SVC_SSH_PORT: '0' })
  await pushFiles(site.admin(), 'other', { 'readme.txt': otherSecret })
  await site.admin().put('/repos/other/secrets/OTHER', { value: otherSecret })
})

after(() => site?.[Symbol.asyncDispose]())

test(
  'a step finds nothing of the server, of its runner, or of other repositories',
  options,
  async () => {
    const { dataDir } = site
    const key = readFileSync(join(dataDir, 'encryption.key'), 'utf8').trim()
    // In two parts, so that a search does not find the script itself.
    const inParts = (text: string) => `${text.slice(0, 5)}"$nothing"${text.slice(5)}`
    const sought = [mark, otherSecret, key, site.service().adminToken, 'svcrun_', 'svcrunner_']
    const parts = sought.map((text) => `-e ${inParts(text)}`)
    const script = [
      'nothing=',
      `echo ${inParts(mark)} >/tmp/control`,
      `ls ${dataDir} ${dataDir}/runner ${dataDir}/.. 2>&1 | sed 's/^/seen: /'`,
      `grep -s -a -l -r -F ${parts.join(' ')} /etc /home /root /var/lib /var/log /tmp /svc /workspace /run /mnt /srv /dev/shm`,
      `grep -s -a -l -F ${parts.join(' ')} /proc/[0-9]*/environ /proc/[0-9]*/cmdline`,
      "find / -xdev \\( -name svc.db -o -name encryption.key -o -name 'runner.lock' \\) 2>/dev/null",
      'ls /proc | grep -c "^[0-9]"',
      'true',
    ]
    const { step, log } = await site.attack('seeker', workflow(script))
    assert.equal(step.conclusion, 'success', log)
    const [control, count = '', ...others] = step.output.split('\n').filter(isFinding)
    assert.equal(control, '/tmp/control')
    assert.deepEqual(others, [], step.output)
    // The first process of the sandbox, those of the step, and the ones that count.
    assert.match(count, /^\d$/)
    await assertRecovered(site)
  },
)

test('a step writes only in its own folders', options, async () => {
  const places = ['/usr/x', '/etc/x', '/bin/x', '/x', '/dev/x', '/home/x', `${site.dataDir}/x`]
  const script = [
    ...places.map((path) => `(echo x >${path}) 2>/dev/null && echo wrote ${path}`),
    '(echo x >/proc/sys/kernel/core_pattern) 2>/dev/null && echo wrote the core pattern',
    'mount -t tmpfs none /mnt 2>/dev/null && echo mounted',
    'unshare -U true 2>/dev/null && echo unshared',
    'echo done',
  ]
  const { step } = await site.attack('writer', workflow(script))
  assert.equal(step.output, 'done\n')
  await assertRecovered(site)
})

test('a step without network cannot reach the server by any address', options, async () => {
  const ports = [new URL(site.service().url).port, site.service().sshPort]
  const script = ports.flatMap((port) =>
    ['127.0.0.1', 'localhost', '0.0.0.0', '169.254.169.254'].map(
      (host) => `(exec 3<>/dev/tcp/${host}/${port}) 2>/dev/null && echo reached ${host}:${port}`,
    ),
  )
  const { step } = await site.attack('caller', workflow([...script, 'echo done']))
  assert.equal(step.output, 'done\n')
  await assertRecovered(site)
})

/** What a step does with an environment file, and the expected fault. */
const files: Record<string, { script: string; fault: RegExp }> = {
  'a link to a file of the host': {
    script: 'ln -sf /etc/passwd "$GITHUB_ENV"',
    fault: /^\$GITHUB_ENV is no longer a regular file\.$/,
  },
  'a link to the key of the server': {
    script: 'ln -sf "$KEY" "$GITHUB_STEP_SUMMARY"',
    fault: /^\$GITHUB_STEP_SUMMARY is no longer a regular file\.$/,
  },
  'a link to an endless device': {
    script: 'ln -sf /dev/zero "$GITHUB_OUTPUT"',
    fault: /^\$GITHUB_OUTPUT is no longer a regular file\.$/,
  },
  'a pipe': {
    script: 'rm "$GITHUB_OUTPUT"; mkfifo "$GITHUB_OUTPUT"',
    fault: /^\$GITHUB_OUTPUT is no longer a regular file\.$/,
  },
  'a folder': {
    script: 'rm "$GITHUB_PATH"; mkdir "$GITHUB_PATH"',
    fault: /^\$GITHUB_PATH is no longer a regular file\.$/,
  },
  'a socket': {
    script: `rm "$GITHUB_ENV"; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => $ENV{GITHUB_ENV}, Listen => 1) or die'`,
    fault: /^\$GITHUB_ENV is no longer a regular file\.$/,
  },
  'a huge file': {
    script: 'truncate -s 3G "$GITHUB_ENV"',
    fault: /^\$GITHUB_ENV is larger than 1048576 bytes\.$/,
  },
  'a file of what is no text': {
    script: 'head -c 100000 /dev/urandom >"$GITHUB_ENV"; echo "=" >>"$GITHUB_ENV"',
    fault: /^\$GITHUB_ENV, line \d+: /,
  },
}

describe('a step that replaces its files by', { ...exhaustive, ...options }, () => {
  for (const [what, { script, fault }] of Object.entries(files)) {
    test(`${what} fails with the reason, and is not read`, async () => {
      const key = `KEY=${join(site.dataDir, 'encryption.key')}`
      const { run, step, log } = await site.attack('filer', workflow([key, script]))
      assert.deepEqual([step.conclusion, step.exitCode], ['failure', 0], log)
      assert.match(step.fault, fault)
      assert.equal(step.summary, null)
      assert.equal(run.conclusion, 'failure')
      await assertRecovered(site)
    })
  }
})

test('links in place of files of the next step are not followed', options, async () => {
  const first = [
    'echo untouched >target',
    'for name in script.sh env output path state summary; do ln -s /workspace/target /svc/1-$name; done',
    'for name in script.sh env output path state summary; do mkdir /svc/2-$name; done',
  ]
  const text = [
    'steps:',
    ...stepOf(first),
    ...stepOf(['cat target; echo of=second >>"$GITHUB_ENV"; cat target']),
    ...stepOf(['echo never']),
  ]
  const { run, log } = await site.attack('layer', text.join('\n'))
  const [, second, third] = run.result.steps
  assert.deepEqual([second.conclusion, second.output], ['success', 'untouched\nuntouched\n'], log)
  assert.deepEqual([third.conclusion, third.exitCode], ['failure', null], log)
  assert.equal(third.output, '')
  assert.match(third.fault, /directory.* '?2-script\.sh'?$/)
  // In the words of the system, without the runner's own folders.
  assert.ok(!third.fault.includes(site.dataDir))
  await assertRecovered(site)
})

const isFinding = (line: string) =>
  line !== '' && !/^seen: .*(No such file|cannot access)/.test(line)

/** A workflow in the short form, of one step in which a failing command is no end. */
function workflow(lines: string[]): string {
  return ['steps:', ...stepOf(lines)].join('\n')
}

function stepOf(lines: string[]): string[] {
  return ['  - run: |', ...['set +e', ...lines].map((line) => `      ${line}`)]
}
