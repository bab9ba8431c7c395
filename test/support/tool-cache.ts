import { chmod, copyFile, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { temporaryFolder } from './git.ts'

/**
 * A folder laid out as the tool cache of GitHub's runners. Programs are scripts for sh by their paths, such as
 * `node/20.1.0/x64/bin/node`; each architecture gets its mark of completeness, unless the path is in `incomplete`.
 */
export async function createToolCache(
  programs: Record<string, string>,
  { incomplete = [] }: { incomplete?: string[] } = {},
) {
  const folder = await temporaryFolder()
  // Steps run as other users.
  await chmod(folder.path, 0o755)
  for (const [path, script] of Object.entries(programs)) {
    await addTool(folder.path, path, { isComplete: !incomplete.includes(path) })
    await writeFile(join(folder.path, path), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  }
  return {
    path: folder.path,
    /** Adds a real program. */
    async copy(path: string, program: string) {
      await addTool(folder.path, path, { isComplete: true })
      await copyFile(program, join(folder.path, path))
      await chmod(join(folder.path, path), 0o755)
    },
    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  }
}

async function addTool(folder: string, path: string, { isComplete }: { isComplete: boolean }) {
  await mkdir(join(folder, dirname(path)), { recursive: true })
  const mark = join(folder, `${path.split('/').slice(0, 3).join('/')}.complete`)
  if (isComplete) await writeFile(mark, '')
}
