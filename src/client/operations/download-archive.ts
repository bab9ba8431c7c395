import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { UsageError } from '../../commands/usage-error.ts'
import { CommandError } from '../command-error.ts'
import { path } from '../http-client.ts'
import type { Work } from '../operation.ts'

/** `svc browse archive` */
export async function downloadArchive({ client, input, terminal, columns }: Work): Promise<void> {
  const { argument, option } = input
  const output = option('output')
  if (output === undefined && columns !== undefined)
    throw new UsageError('An archive is not for a terminal: give --output FILE, or use a pipe.')
  const body = await client.stream({
    method: 'GET',
    path: path`/repos/${argument('repository')}/archive`,
    query: {
      rev: option('rev'),
      path: option('path'),
      pathBase64: option('pathBase64'),
      format: option('format') ?? formatOf(output ?? ''),
    },
    headers: { accept: '*/*' },
  })
  if (output !== undefined) return save(body, output)
  try {
    for await (const chunk of body) await terminal.write(chunk)
  } catch (error) {
    throw brokenOff(error)
  }
}

function formatOf(file: string): string | undefined {
  const [, ending] = /\.(zip|tar)$/.exec(file) ?? []
  return ending
}

/** Saves a stream to a file that has its name only when it is whole. */
async function save(body: NodeJS.ReadableStream, file: string): Promise<void> {
  const partial = `${file}.partial`
  try {
    await pipeline(body, createWriteStream(partial))
    await rename(partial, file)
  } catch (error) {
    await rm(partial, { force: true })
    throw brokenOff(error)
  }
}

function brokenOff(error: unknown): CommandError {
  const reason = error instanceof Error ? error.message : String(error)
  return new CommandError('failure', `The archive is not complete: ${reason}.`)
}
