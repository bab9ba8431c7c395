import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { gitCommands } from './commands.ts'
import { createGit } from './git-process.ts'
import { capabilitiesIn, pushOffer } from './push-offer.ts'
import { isRefName } from './ref-name.ts'

const limits = { pushMaxBytes: 1e9, pushMemoryMaxBytes: 1e9 }
const git = createGit({ owner: '/nonexistent', path: process.env.PATH ?? '', ...limits })

test('the offer of a push is what git prints, byte for byte, whatever refs there are', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'))
  const directory = join(folder, 'site.git')
  await git.run(gitCommands.init(directory))
  const run = (args: string[], input = '') =>
    execFileSync('git', ['--git-dir', directory, ...args], { input, encoding: 'utf8' }).trim()
  const tree = run(['hash-object', '-t', 'tree', '-w', '--stdin'])
  const person = 'A <a@b> 1700000000 +0000'
  const commits = ['one', 'two', 'three'].map((message) =>
    run(
      ['hash-object', '-t', 'commit', '-w', '--stdin'],
      `tree ${tree}\nauthor ${person}\ncommitter ${person}\n\n${message}\n`,
    ),
  )
  const name = fc
    .array(fc.constantFrom('a', 'B', '-', '.', '/', 'é', '\ue000', '🙂', 'x.new', 'tmp_'), {
      minLength: 1,
      maxLength: 4,
    })
    .map((parts) => `refs/${parts.join('')}`)
  const step = fc.record({
    name: fc
      .tuple(fc.constantFrom('heads', 'tags', 'notes', 'svc'), name)
      .map(([kind, rest]) => rest.replace('refs/', `refs/${kind}/`)),
    commit: fc.constantFrom(...commits, ''),
    pack: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 5 }), async (steps) => {
      for (const { name, commit, pack } of steps) {
        if (!isRefName(name)) continue
        const command = commit ? `update ${name} ${commit}\n` : `delete ${name}\n`
        // A ref cannot be where the folder of another is.
        try {
          run(['update-ref', '--stdin'], command)
        } catch {}
        if (pack) run(['pack-refs', '--all'])
      }
      const printed = await git.run(gitCommands.advertisePush(directory))
      const offer = await pushOffer(directory, capabilitiesIn(printed))
      assert.equal(offer?.toString(), printed)
    }),
    { numRuns: 40 },
  )
  rmSync(folder, { recursive: true })
})
