import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { idDigits, type ObjectFormat } from '#base/object-id.ts'
import { gitCommands } from '../process/commands.ts'
import type { Git } from '../process/git-process.ts'
import { isRefName } from '../refs/ref-name.ts'
import { importFailed, refsMaxBytes, requireUtf8, tooManyRefs } from './import-error.ts'
import { copyNamed } from './local-copy.ts'
import { OpenedFolder } from './opened-folder.ts'

const listMaxBytes = 65_536
// A table is merged into another one when its source is written to, at any time.
const maxAttempts = 5
const maxConcurrentFiles = 32

const reftableConfig = (format: ObjectFormat) =>
  `[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = ${format}\n\trefstorage = reftable\n`

/**
 * Converts the refs of a repository in the format "reftable" to files, in a folder of their own that is removed when it is
 * disposed: gitformat-reftable(5). Throws an `import_failed` when the git of this server is older than 2.45, or the refs
 * are damaged.
 */
export async function convertReftable(
  git: Git,
  source: OpenedFolder,
  { path, objectFormat, signal }: { path: string; objectFormat: ObjectFormat; signal: AbortSignal },
): Promise<AsyncDisposable & { folder: OpenedFolder }> {
  await using made = new AsyncDisposableStack()
  made.defer(() => rm(path, { recursive: true, force: true }))
  for (const folder of ['', 'objects', 'refs', 'reftable']) await mkdir(join(path, folder))
  await writeFile(join(path, 'config'), reftableConfig(objectFormat))
  await writeFile(join(path, 'HEAD'), 'ref: refs/heads/.invalid\n')
  await copyTables(source, join(path, 'reftable'), signal)
  await writeRefs(git, path, objectFormat)
  const folder = made.use(await OpenedFolder.open(path))
  const kept = made.move()
  return { folder, [Symbol.asyncDispose]: () => kept.disposeAsync() }
}

/** Copies the tables that the list names, and the list. */
async function copyTables(source: OpenedFolder, target: string, signal: AbortSignal) {
  await using folder = await source.folder('reftable')
  if (!folder) throw damaged()
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const list = await folder.text('tables.list', listMaxBytes)
    const names = list.split('\n').filter(Boolean)
    if (!names.every((name) => /^0x[0-9a-f]{12}-0x[0-9a-f]{12}-[0-9a-f]{8}\.ref$/.test(name)))
      throw damaged()
    let bytes = 0
    const spend = (more: number) => {
      signal.throwIfAborted()
      bytes += more
      if (bytes > refsMaxBytes) throw tooManyRefs()
    }
    let isComplete = true
    await forEachConcurrently(maxConcurrentFiles, names, async (name) => {
      if (!(await copyNamed(folder, name, join(target, name), { spend }))) isComplete = false
    })
    if (isComplete) return writeFile(join(target, 'tables.list'), list)
    for (const name of names) await rm(join(target, name), { force: true })
  }
  throw importFailed('The refs of the source change too quickly; try again.')
}

/** Writes the refs as files, beside the tables. */
async function writeRefs(git: Git, path: string, objectFormat: ObjectFormat): Promise<void> {
  const listed = await git.run(gitCommands.listStoredRefs(path)).catch(async (error) => {
    throw /refstorage|reftable/i.test(String(error)) ? unknownFormat(error) : damaged(error)
  })
  const plain: string[] = []
  for (const line of listed.split('\n').filter(Boolean)) {
    const [id = '', target = '', name = ''] = line.split(' ')
    requireUtf8(name)
    if (!isRefName(name)) throw damaged()
    if (target === '') plain.push(`${id} ${name}\n`)
    else {
      await mkdir(dirname(join(path, name)), { recursive: true })
      await writeFile(join(path, name), `ref: ${target}\n`)
    }
  }
  await writeFile(join(path, 'packed-refs'), plain.join(''))
  // Of a detached HEAD only that it names no ref matters.
  const head = await git.run(gitCommands.readHead(path)).catch(() => '')
  await writeFile(
    join(path, 'HEAD'),
    head === '' ? `${'0'.repeat(idDigits(objectFormat))}\n` : `ref: ${head}`,
  )
}

function unknownFormat(cause: unknown) {
  return importFailed(
    'The source keeps its refs as "reftable", which the git of this server cannot read; push it here with git instead.',
    cause,
  )
}

function damaged(cause?: unknown) {
  return importFailed('The source is damaged: its refs cannot be read.', cause)
}
