import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { print } from './print.ts'

/**
 * Returns the path of a bare repository that takes long to make, and is made only once: it is kept in the folder of
 * temporary files. `make` fills a new one at a path.
 */
export async function keptHistory(
  name: string,
  { what, make }: { what: string; make: (path: string) => Promise<void> },
): Promise<string> {
  const folder = join(tmpdir(), 'svc-bench-histories')
  const path = join(folder, `${name}.git`)
  if (existsSync(path)) return path
  print(`Creating ${what} in ${path}, which is kept for the next run`)
  const unfinished = join(folder, `unfinished-${process.pid}.git`)
  await mkdir(folder, { recursive: true })
  try {
    await make(unfinished)
    await rename(unfinished, path)
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
  return path
}
