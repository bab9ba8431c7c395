import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type RawRefs, targetOf } from '#git/refs/stored-ref.ts'

/** Writes the refs and HEAD of a new repository: gitrepository-layout(5), packed-refs as by git-pack-refs(1). */
export async function writeRefs(directory: string, refs: RawRefs): Promise<void> {
  const packed: string[] = []
  for (const [name, value] of refs) {
    const target = targetOf(value)
    if (target === undefined) packed.push(`${value} ${name}\n`)
    else await writeSymbolic(directory, name, target)
  }
  // Without peeled tags in the file, git peels them itself until it packs the refs.
  const content = ['# pack-refs with: sorted \n', ...packed].join('')
  if (packed.length > 0) await writeFile(join(directory, 'packed-refs'), content, 'latin1')
}

async function writeSymbolic(directory: string, name: string, target: string): Promise<void> {
  const path = Buffer.concat([Buffer.from(`${directory}/`), Buffer.from(name, 'latin1')])
  if (name !== 'HEAD') await mkdir(parentOf(path), { recursive: true })
  await writeFile(path, Buffer.from(`ref: ${target}\n`, 'latin1'))
}

function parentOf(path: Buffer): Buffer {
  return Buffer.from(dirname(path.toString('latin1')), 'latin1')
}
