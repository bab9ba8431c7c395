import assert from 'node:assert/strict'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { gitCommands } from './commands.ts'
import { createGit, withOptions } from './git-process.ts'

const commands: [string, (...values: string[]) => string[]][] = Object.entries(gitCommands)
const mib = 1024 * 1024

/** A git whose program prints the limits under which it was started, or the output of another command. */
async function createSite(command = 'echo "$(ulimit -d) $(ulimit -t)"') {
  const folder = await temporaryFolder()
  const program = join(folder.path, 'git')
  await writeFile(program, `#!/bin/sh\n${command}\n`)
  await chmod(program, 0o700)
  const limits = { gitMemoryMaxBytes: 300 * mib, gitCpuMaxSeconds: 70 }
  const git = createGit({
    settings: { ...gitLimits, ...limits },
    owner: 'test',
    path: `${folder.path}:/usr/bin:/bin`,
  })
  return { git, [Symbol.asyncDispose]: folder[Symbol.asyncDispose] }
}

test('every git command has a limit of memory and of processor time', async () => {
  await using site = await createSite()
  for (const [name, command] of commands) {
    const words = command(...Array<string>(command.length).fill('f'.repeat(40)))
    assert.equal(await site.git.run(words), `${300 * 1024} 70\n`, name)
  }
})

test('a limit of a command replaces only the common one of its kind', async () => {
  await using site = await createSite()
  const run = (limits: object) => site.git.run(gitCommands.version(), { limits })
  assert.equal(await run({ memoryMaxBytes: 100 * mib }), `${100 * 1024} 70\n`)
  assert.equal(await run({ cpuMaxSeconds: 5 }), `${300 * 1024} 5\n`)
  await using push = await site.git.startPush('/nonexistent')
  push.stdin.end()
  let said = ''
  for await (const text of push.stdout.setEncoding('utf8')) said += text
  assert.equal(said, `${1024 * 1024} 70\n`)
})

test('a git that is to yield has its niceness', async () => {
  await using site = await createSite('nice')
  assert.equal(await site.git.run(gitCommands.version(), { niceness: 5 }), '5\n')
  assert.equal(await site.git.run(gitCommands.version()), '0\n')
})

test('options of a git hold for each of its commands', async () => {
  await using site = await createSite('nice')
  const git = withOptions(site.git, { niceness: 5 })
  assert.equal(await git.run(gitCommands.version(), { niceness: 1 }), '5\n')
  assert.equal((await git.runUpTo(100, gitCommands.version()))?.toString(), '5\n')
  await using child = await git.start(gitCommands.version())
  let said = ''
  for await (const text of child.stdout.setEncoding('utf8')) said += text
  assert.equal(said, '5\n')
})
