import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { importFailed } from './import-error.ts'
import { type LfsSource, maxConcurrentLfsObjects } from './lfs-source.ts'
import { OddFileError, type OpenedFolder } from './opened-folder.ts'

/** The objects of Git LFS of a local repository. */
export type LocalLfsSource = LfsSource & AsyncDisposable

/** Opens the folder in which git-lfs has objects; undefined when there is none. Symbolic links are not followed. */
export async function openLocalLfsSource(
  repository: OpenedFolder,
): Promise<LocalLfsSource | undefined> {
  const objects = await openWithin(repository, ['lfs', 'objects'])
  if (!objects) return undefined
  return {
    async read({ pointers, receive, onFault, signal }) {
      await forEachConcurrently(maxConcurrentLfsObjects, pointers, async (pointer) => {
        signal.throwIfAborted()
        const { oid, size } = pointer
        try {
          await using folder = await openWithin(objects, [oid.slice(0, 2), oid.slice(2, 4)])
          await using file = await folder?.file(oid)
          if (!file || (await file.stat()).size !== size) throw absent(oid)
          await receive(pointer, file.createReadStream({ autoClose: false }))
        } catch (error) {
          signal.throwIfAborted()
          onFault(error)
        }
      })
    },

    [Symbol.asyncDispose]: () => objects[Symbol.asyncDispose](),
  }
}

async function openWithin(
  folder: OpenedFolder,
  [name = '', ...others]: string[],
): Promise<OpenedFolder | undefined> {
  const inner = await folder.folder(name).catch(ignoreOddFile)
  if (!inner || others.length === 0) return inner
  await using _closed = inner
  // Awaited, so that it is not closed before.
  return await openWithin(inner, others)
}

function ignoreOddFile(error: unknown): undefined {
  if (!(error instanceof OddFileError)) throw error
}

function absent(oid: string): Error {
  return importFailed(`The source has no file of the LFS object ${oid}, or one of another size.`)
}
