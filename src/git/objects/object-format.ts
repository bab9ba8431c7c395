import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { replaceFile, sync } from '#base/disk.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import { closeReadersOf } from '../process/process-pool.ts'

const extension = /^\tobjectformat = (\w+)\n/m
const version = /^\trepositoryformatversion = \d+\n/m

/** The object format of a repository of this server, in its configuration. */
export async function readObjectFormat(directory: string): Promise<ObjectFormat> {
  return formatIn(await readFile(join(directory, 'config'), 'utf8'))
}

/** Changes the object format of a repository without objects: gitrepository-layout(5), `extensions.objectFormat`. */
export async function writeObjectFormat(directory: string, format: ObjectFormat): Promise<void> {
  const config = await readFile(join(directory, 'config'), 'utf8')
  if (formatIn(config) === format) return
  // Git processes that read objects go on with the former format.
  await closeReadersOf(directory)
  const plain = config.replace(/^\[extensions\]\n\tobjectformat = \w+\n/im, '')
  const extensions = format === 'sha1' ? '' : `[extensions]\n\tobjectformat = ${format}\n`
  const number = format === 'sha1' ? 0 : 1
  const core = plain.replace(version, `\trepositoryformatversion = ${number}\n`)
  await replaceFile(directory, 'config', core + extensions)
  await sync(join(directory, 'config'))
  await sync(directory)
}

function formatIn(config: string): ObjectFormat {
  return extension.exec(config.toLowerCase())?.[1] === 'sha256' ? 'sha256' : 'sha1'
}
