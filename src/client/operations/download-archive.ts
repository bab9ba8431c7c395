import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { UsageError } from '../../commands/usage-error.ts'
import { path } from '../http-client.ts'
import type { Work } from '../operation.ts'

/** The content types of archives. */
const types: Record<string, string> = {
  'tar.gz': 'application/gzip',
  zip: 'application/zip',
  tar: 'application/x-tar',
}

/** `svc browse archive` */
export async function downloadArchive({ client, input, terminal, columns }: Work): Promise<void> {
  const { argument, option } = input
  const output = option('output')
  if (output === undefined && columns !== undefined)
    throw new UsageError('An archive is not for a terminal: give --output FILE, or use a pipe.')
  const format = option('format') ?? formatOf(output ?? '')
  const request = {
    method: 'GET',
    path: path`/repos/${argument('repository')}/archive`,
    query: {
      rev: option('rev'),
      path: option('path'),
      pathBase64: option('pathBase64'),
      format,
    },
  }
  const body = await client.stream(request, types[format] ?? '')
  if (output !== undefined) return save(body, output)
  for await (const chunk of body) await terminal.write(chunk)
}

function formatOf(file: string): string {
  const [, ending = 'tar.gz'] = /\.(zip|tar)$/.exec(file) ?? []
  return ending
}

/** Saves a stream to a file that has its name only when it is whole. */
async function save(body: AsyncIterable<Buffer>, file: string): Promise<void> {
  const partial = `${file}.partial`
  try {
    await pipeline(body, createWriteStream(partial))
    await rename(partial, file)
  } catch (error) {
    await rm(partial, { force: true })
    throw error
  }
}
