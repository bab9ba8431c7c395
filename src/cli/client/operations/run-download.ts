import { join } from 'node:path'
import { pipeline } from 'node:stream'
import { ArchiveFormatError } from '#base/archives/archive-format-error.ts'
import { decompressZstd } from '#base/archives/decompress-zstd.ts'
import { isOfGit, unpackTar } from '#base/archives/unpack-tar.ts'
import { printable, toSize } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { CommandError } from '../command-error.ts'
import { textAt } from '../display.ts'
import { notSvc, path } from '../http-client.ts'
import type { Work } from '../operation.ts'

type Unpacked = { name: string; folder: string; files: number; bytes: number }

/** `svc runs download` */
export async function runDownload(work: Work): Promise<void> {
  const { client, input, terminal, json } = work
  const names = input.list('name')
  const target = input.option('dir') ?? '.'
  const listed = await client.json({ method: 'GET', path: artifactsPath(work) })
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
  work: Work,
  { id, name, folder }: { id: string; name: string; folder: string },
): Promise<{ files: number; bytes: number }> {
  const request = { method: 'GET', path: artifactsPath(work) + path`/${id}` }
  const query = { format: 'tar.zst' }
  const content = await work.client.stream({ ...request, query }, 'application/zstd')
  try {
    // The reader gets the error of each.
    return await unpackTar(
      pipeline(content, decompressZstd(), () => {}),
      folder,
    )
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

function artifactsPath({ input: { argument } }: Work): string {
  return path`/repos/${argument('repository')}/workflows/${argument('run')}/artifacts`
}
