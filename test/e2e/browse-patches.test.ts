import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { quoteForImport, startBrowseSite } from '../support/browse-site.ts'
import { loggedIn } from '../support/client-home.ts'
import { exhaustive } from '../support/exhaustive.ts'

const data = (text: string) => `data ${text.length}\n${text}\n`

test('a patch is for git in a pipe, and harmless on a terminal', exhaustive, async () => {
  await using site = await startBrowseSite()
  const files = {
    'esc.txt': 'clear\x1b[2J\x1b]0;title\x07\n\x9b31m\n\xc2\x9b31m\nalert\x07 tab\there\r\n',
    'odd\x1b[31m name': 'a\n',
    'bidi.txt': '\xe2\x80\xaereversed\n',
    'latin1.txt': 'caf\xe9\n',
  }
  const lines = Object.entries(files).map(
    ([name, content]) => `M 100644 inline ${quoteForImport(name)}\n${data(content)}`,
  )
  await site.importCommits(
    `commit refs/heads/main\nmark :1\ncommitter A <a@x> 1 +0000\n${data('one')}M 100644 inline base\n${data('b\n')}\n` +
      `commit refs/heads/main\ncommitter Mallory \x1b[2J <m@x> 2 +0000\n${data('two\n\ndiff --git a/base b/base\n\x1b[2J')}from :1\n${lines.join('')}` +
      `M 100644 inline binary\n${data('\0\x01')}\n`,
  )
  await site.push('main')
  await using home = await loggedIn(site.service)
  for (const command of [
    ['commit', 'site', 'main', '--diff'],
    ['compare', 'site', `${await site.git('rev-parse', 'main~1')}`, 'main'],
  ]) {
    const args = ['browse', ...command]
    const shown = await home.onTerminal(args, [], { columns: 200 })
    assert.equal(shown.code, 0, shown.shown)
    const text = shown.shown.replaceAll('\r\n', '\n')
    assert.doesNotMatch(text, /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]/)
    assert.match(text, /^\+clear\?\[2J/m)
    assert.match(text, /^\+alert\? tab\there\?$/m)
    assert.match(text, /^Binary files \/dev\/null and b\/binary differ$/m)
    assert.match(text, /not completely in the patch: binary/)

    const piped = await home.run(args)
    assert.equal(piped.code, 0, piped.err)
    assert.match(piped.err, /not in the patch: binary: binary/)
  }
})

test('git applies the patch of a command in a pipe', async () => {
  await using site = await startBrowseSite()
  await site.importCommits(
    `commit refs/heads/main\nmark :1\ncommitter A <a@x> 1 +0000\n${data('one')}` +
      `M 100644 inline old\n${data('same\n'.repeat(9))}M 100644 inline latin1\n${data('caf\xe9\n')}\n` +
      `commit refs/heads/main\ncommitter A <a@x> 2 +0000\n${data('two\n\ndiff --git a/x b/x\n')}from :1\n` +
      `R old ${quoteForImport('new "name"')}\nM 100755 inline ${quoteForImport('new "name"')}\n${data(`${'same\n'.repeat(9)}more`)}` +
      `M 100644 inline latin1\n${data('th\xe9\r\n')}M 120000 inline link\n${data('latin1')}\n`,
  )
  await site.push('main')
  await using home = await loggedIn(site.service)
  const command = home.start(['browse', 'commit', 'site', 'main', '--diff'])
  const patch = await buffer(command.stdout)
  const env = { ...process.env, GIT_INDEX_FILE: join(site.path, 'test-index') }
  const run = (args: string[], input?: Buffer) => {
    const ran = spawnSync('git', [`--git-dir=${site.path}`, ...args], { input, env })
    assert.equal(ran.status, 0, `${ran.stderr}`)
    return ran.stdout.toString().trim()
  }
  run(['read-tree', 'main~1'])
  run(['apply', '--cached', '--whitespace=nowarn', '-'], patch)
  assert.equal(run(['write-tree']), await site.git('rev-parse', 'main^{tree}'))
})
