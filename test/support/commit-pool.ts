import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createProject, spawnGit } from './git.ts'

const marksFile = '.git/marks'
// Some packs must be large enough for a kill to hit them while they are being received.
const largeEvery = 20
const largeLines = 20_000

/** A project with many commits that have nothing in common, each handed out once. */
export async function createCommitPool(count: number) {
  const project = await createProject()
  const importing = spawnGit(project.path, [
    'fast-import',
    '--quiet',
    `--export-marks=${marksFile}`,
  ])
  const ended = once(importing, 'close')
  for (let number = 1; number <= count; number++) {
    const lines = number % largeEvery === 0 ? largeLines : 1
    const content = Array.from({ length: lines }, (_, line) => `${number} ${line * number}\n`).join(
      '',
    )
    const isTaken = importing.stdin.write(
      `commit refs/heads/pool-${number}\nmark :${number}\n` +
        `committer Ada <ada@example.com> 1700000000 +0000\ndata 0\n` +
        `M 100644 inline file.txt\ndata ${content.length}\n${content}\n`,
    )
    if (!isTaken) await once(importing.stdin, 'drain')
  }
  importing.stdin.end()
  await ended
  const marks = await readFile(join(project.path, marksFile), 'utf8')
  const unused = [...marks.matchAll(/^:\d+ ([0-9a-f]{40,64})$/gm)].map(([, id]) => id ?? '')

  return {
    path: project.path,
    next(): string {
      const id = unused.pop()
      if (id === undefined) throw new Error('The pool has no more commits; make it larger.')
      return id
    },
    [Symbol.asyncDispose]: project[Symbol.asyncDispose],
  }
}
