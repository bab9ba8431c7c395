import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type RawRefs, targetOf } from '../git/refs/raw-refs.ts'

/** Gives a new repository its refs and its HEAD: gitrepository-layout(5), packed-refs as git-pack-refs(1) has them. */
export async function writeRefs(directory: string, refs: RawRefs): Promise<void> {
  const packed: string[] = []
  for (const [name, value] of refs) {
    const target = targetOf(value)
    if (target === undefined) packed.push(`${value} ${name}\n`)
    else await writeSymbolic(directory, name, target)
  }
  // Nothing is said of what tags stand for, so git looks it up until it packs refs itself.
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
