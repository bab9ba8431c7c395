import assert from 'node:assert/strict'
import { chmod, open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../test/support/git.ts'
import { gitCommands } from '../git/commands.ts'
import { createGit } from '../git/git-process.ts'
import { createFlights } from './flights.ts'

test('a git that begins an answer otherwise than with its pack fails once, and is left to speak for itself', async () => {
  await using site = await startWith("printf '0011shallow-info0000'")
  assert.deepEqual(await site.fly(), {
    answer: '000dpackfile\n002d\x03upload-pack: the pack could not be begun',
    fault: 'Git has begun an answer otherwise than with its pack.',
    isKept: false,
  })
  assert.deepEqual(await site.fly(), { answer: '0011shallow-info0000', fault: '', isKept: true })
})

test('a git that ends with its head ends the answer there', async () => {
  await using site = await startWith("printf '000dpackfile\\n'; exit 1")
  assert.deepEqual(await site.fly(), { answer: '000dpackfile\n', fault: '', isKept: false })
})

/** Flights with a program in place of git, whose answers are believed to be packs alone. */
async function startWith(script: string) {
  const folder = await temporaryFolder()
  const program = join(folder.path, 'git')
  await writeFile(program, `#!/bin/sh\nPATH='${process.env.PATH}'\ncat >/dev/null\n${script}\n`)
  await chmod(program, 0o755)
  const limits = { pushMaxBytes: 2 ** 30, pushMemoryMaxBytes: 2 ** 30 }
  const git = createGit({ ...limits, owner: folder.path, path: folder.path })
  const flights = createFlights(() => open(join(folder.path, 'answer'), 'w+'))
  return {
    /** Reads an answer to its end. */
    async fly() {
      const { signal } = new AbortController()
      const kept = Promise.withResolvers<boolean>()
      const production = {
        input: Buffer.from('0000'),
        request: undefined,
        takeTurn: async () => ({ [Symbol.dispose]() {} }),
        start: () => git.start(gitCommands.fetch(folder.path)),
        isPackAlone: async () => true,
      }
      const turn = await production.takeTurn()
      const onEnd = async (_spool: unknown, { exitCode }: { exitCode: number | null }) =>
        kept.resolve(exitCode === 0)
      const spool = flights.start({ key: 'one', production, turn, isWanted: () => false, onEnd })
      using reader = spool.read()
      let answer = ''
      try {
        for (;;) {
          const piece = await reader.next(signal)
          if (!piece) return { answer, fault: '', isKept: await kept.promise }
          answer += piece.bytes.toString('latin1')
        }
      } catch (error) {
        return { answer, fault: (error as Error).message, isKept: false }
      }
    },
    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  }
}
