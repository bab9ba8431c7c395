import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from '#base/ids.ts'
import { formatOf } from '#base/object-id.ts'
import {
  reachableLooseObjects,
  readLooseObject,
  writeLooseObject,
} from '#git/objects/loose-objects.ts'
import type { NewObject } from '#git/objects/new-objects.ts'
import { writePack } from '#git/objects/pack.ts'
import { type Git, withOptions } from '#git/process/git-process.ts'
import type { Body } from '#git/protocol/request-body.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import type { Repository } from '#repositories/repositories.ts'

/** A temporary object directory on top of that of a repository. */
export type Scratch = AsyncDisposable & {
  /** Starts git processes that see the objects of both, and write to the temporary one. */
  git: Git
  write: (object: NewObject) => Promise<void>
  /** A pack of some commits, and of the objects that trees lead to as far as they are new. */
  packOf: (commits: readonly NewObject[], trees: readonly string[]) => Promise<Body>
}

// What of it is used becomes durable as a push.
const config = { 'core.fsync': 'none' }

/** Creates a temporary object directory in `staging`. */
export async function createScratch(
  { git, directories }: { git: Git; directories: Pick<Directories, 'scratchOf' | 'removeScratch'> },
  { path }: Repository,
): Promise<Scratch> {
  const id = newId(Date.now())
  const objects = directories.scratchOf(id, 'objects')
  await mkdir(objects, { mode: 0o700 })
  const variables = {
    GIT_OBJECT_DIRECTORY: objects,
    GIT_ALTERNATE_OBJECT_DIRECTORIES: join(path, 'objects'),
  }
  return {
    git: withOptions(git, { variables, config }),
    write: (object) => writeLooseObject(objects, object),
    async packOf(commits, trees) {
      const ids = await reachableLooseObjects(objects, trees)
      async function* all() {
        yield* commits
        for (const object of ids) yield await readLooseObject(objects, object)
      }
      const format = formatOf(commits[0]?.id ?? trees[0] ?? '')
      return writePack(commits.length + ids.size, all(), format)
    },
    [Symbol.asyncDispose]: () => directories.removeScratch(id, 'objects'),
  }
}
