import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline as pipe } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ArchiveFormatError } from '#base/archives/archive-format-error.ts'
import { decompressZstd } from '#base/archives/decompress-zstd.ts'
import { isOfGit, unpackTar } from '#base/archives/unpack-tar.ts'
import { printable, toSize } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { notSvc, path } from '../servers/http-client.ts'
import { CommandError, UsageError } from '../terminal/command-errors.ts'
import { textAt } from '../terminal/display.ts'
import type { ServerWork } from './operation.ts'

type Unpacked = { name: string; folder: string; files: number; bytes: number }

/** `svc runs download` */
export async function runDownload(work: ServerWork): Promise<void> {
  const { client, input, terminal, json } = work
  const names = input.list('name')
  const target = input.option('dir') ?? '.'
  const listed = await client.json(work.request())
  if (!Array.isArray(listed)) throw notSvc(client.url)
  const unpacked: Unpacked[] = []
  for (const artifact of choose(listed, names)) {
    const name = textAt(artifact, 'name')
    // The name is the server's: it may not lead out of the folder that the user chose.
    const folder = names?.length === 1 ? target : join(target, toFolderName(name, client.url))
    const counts = await download(work, { id: textAt(artifact, 'id'), name, folder })
    unpacked.push({ name, folder, ...counts })
    if (!json) terminal.out(`${toSentence({ name, folder, ...counts })}\n`)
  }
  if (json) terminal.out(toSafeJson(unpacked))
}

function toSentence({ name, folder, files, bytes }: Unpacked): string {
  const count = `${files} ${files === 1 ? 'file' : 'files'}, ${toSize(bytes)}`
  return printable(`Unpacked ${name} into ${folder}: ${count}.`)
}

/** The newest artifact of each name, or of each given one. */
function choose(listed: readonly Json[], names: string[] | undefined): Json[] {
  const newest = new Map(listed.map((artifact) => [textAt(artifact, 'name'), artifact]))
  if (newest.size === 0) throw new CommandError('failure', 'The run has no artifacts.')
  return (names ?? [...newest.keys()]).map((name) => {
    const artifact = newest.get(name)
    if (artifact !== undefined) return artifact
    const known = [...newest.keys()].join(', ')
    throw new CommandError('failure', printable(`The run has no artifact ${name}, but ${known}.`))
  })
}

function toFolderName(name: string, url: string): string {
  if (name === '' || /^\.{1,2}$|[/\\\0]/.test(name)) throw notSvc(url)
  if (!isOfGit(name)) return name
  throw new CommandError('failure', printable(`${name} is no name for a folder: give --dir, too.`))
}

async function download(
  work: ServerWork,
  { id, name, folder }: { id: string; name: string; folder: string },
): Promise<{ files: number; bytes: number }> {
  const list = work.request()
  const request = { ...list, path: list.path + path`/${id}`, query: { format: 'tar.zst' } }
  const content = await work.client.stream(request, 'application/zstd')
  try {
    // The reader gets the error of each.
    const archive = pipe(content, decompressZstd(), () => {})
    return await unpackTar(archive, folder)
  } catch (error) {
    const isOfArchive = error instanceof ArchiveFormatError || isOfZstd(error)
    if (!isOfArchive) throw error
    const reason = error instanceof ArchiveFormatError ? error.message : 'It is damaged.'
    const text = `${name} is not unpacked any further: ${reason} svc artifacts get downloads the archive.`
    throw new CommandError('failure', printable(text), { cause: error })
  }
}

function isOfZstd(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^Z(STD)?_/.test(String(error.code))
}

/** The content types of archives. */
const types: Record<string, string> = {
  'tar.gz': 'application/gzip',
  'tar.zst': 'application/zstd',
  zip: 'application/zip',
  tar: 'application/x-tar',
}

/** Downloads an archive to a file or to standard output, in the format of the options or of the file's name. */
export async function downloadArchive(work: ServerWork): Promise<void> {
  const { client, input, terminal, columns } = work
  const output = input.option('output')
  if (output === undefined && columns !== undefined)
    throw new UsageError('An archive is not for a terminal: give --output FILE, or use a pipe.')
  const format = input.option('format') ?? formatOf(output ?? '')
  const body = await client.stream(work.request({ format }), types[format] ?? '')
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
