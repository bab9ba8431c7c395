import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const execute = promisify(execFile)

export const root = fileURLToPath(new URL('../..', import.meta.url))

/** Packs what has been built, as other tests run it, into a folder; the archive and the paths in it. */
export async function packInto(folder: string): Promise<{ archive: string; names: string[] }> {
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  const [{ filename, files }] = JSON.parse((await execute('npm', pack, { cwd: root })).stdout)
  const names: string[] = files.map(({ path }: { path: string }) => path)
  return { archive: join(folder, filename), names }
}

/** Unpacks an archive in its folder; the package. */
export async function unpack(archive: string): Promise<string> {
  const folder = join(archive, '..')
  await execute('tar', ['-xf', archive, '-C', folder])
  return join(folder, 'package')
}
