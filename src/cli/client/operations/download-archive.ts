import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { UsageError } from '../../commands/usage-error.ts'
import { type ApiRequest, path } from '../http-client.ts'
import type { Work } from '../operation.ts'
import { placeOf } from './option-values.ts'

/** The content types of archives. */
const types: Record<string, string> = {
  'tar.gz': 'application/gzip',
  'tar.zst': 'application/zstd',
  zip: 'application/zip',
  tar: 'application/x-tar',
}

/** `svc browse archive` */
export function downloadArchive(work: Work): Promise<void> {
  const at = path`/repos/${work.input.argument('repository')}/archive`
  return download(work, { method: 'GET', path: at, query: placeOf(work.input) })
}

/** `svc artifacts get` */
export function downloadArtifact(work: Work): Promise<void> {
  const { argument } = work.input
  const run = path`/repos/${argument('repository')}/workflows/${argument('run')}`
  return download(work, { method: 'GET', path: run + path`/artifacts/${argument('artifact')}` })
}

/** Downloads an archive to a file or to standard output, in the format of the options or of the file's name. */
async function download({ client, input, terminal, columns }: Work, request: ApiRequest) {
  const output = input.option('output')
  if (output === undefined && columns !== undefined)
    throw new UsageError('An archive is not for a terminal: give --output FILE, or use a pipe.')
  const format = input.option('format') ?? formatOf(output ?? '')
  const query = { ...request.query, format }
  const body = await client.stream({ ...request, query }, types[format] ?? '')
  if (output !== undefined) return save(body, output)
  for await (const chunk of body) await terminal.write(chunk)
}

function formatOf(file: string): string {
  const [, ending = 'tar.gz'] = /\.(zip|tar|tar\.zst)$/.exec(file) ?? []
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
