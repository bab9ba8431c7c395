import { realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { PlainSettings } from '#config/settings.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import { type Git, withOptions } from '#git/process/git-process.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, type RefUpdate } from '#git/refs/refs.ts'
import type { Push } from './push.ts'

type PushedObjects = {
  /** The kinds of the objects that the updates name, as far as they exist. */
  objects: Map<string, 'commit' | 'other'>
  /** By the id of an annotated tag: what it points to at last. */
  peeled: Map<string, string>
  /** Starts git processes that see the objects in quarantine. */
  scopedGit: Git
}

/** Looks at the objects of a push while they are in quarantine: see tmp_objdir_env in Git's tmp-objdir.c. */
export async function readPushedObjects(
  git: Git,
  {
    repository,
    quarantine,
    isFastForward,
  }: Pick<Push, 'repository' | 'quarantine' | 'isFastForward'>,
  updates: RefUpdate[],
): Promise<PushedObjects> {
  const scopedGit = await openQuarantine(git, { repository, quarantine })
  const [only] = updates
  // Its pack contains the new commit, whose history leads to the old one.
  if (isFastForward && only && updates.length === 1 && only.ref.startsWith(branchPrefix)) {
    const objects = new Map([only.before, only.after].map((id) => [id, 'commit' as const]))
    return { objects, peeled: new Map(), scopedGit }
  }
  const named = updates.flatMap(({ before, after }) => [before, after])
  const ids = [...new Set(named)].filter((id) => id !== zeroId)
  const names = ids.flatMap((id) => [id, `${id}^{commit}`, `${id}^{}`])
  const found = ids.length > 0 ? await findObjects(scopedGit, repository.path, names) : new Map()
  const objects = new Map<string, 'commit' | 'other'>()
  const peeled = new Map<string, string>()
  for (const id of ids) {
    if (!found.has(id)) continue
    objects.set(id, found.get(`${id}^{commit}`) === id ? 'commit' : 'other')
    const target = found.get(`${id}^{}`)
    if (target !== undefined && target !== id) peeled.set(id, target)
  }
  return { objects, peeled, scopedGit }
}

/** Returns a git whose processes see the objects of a push that are in quarantine, if there are any. */
export async function openQuarantine(
  git: Git,
  { repository, quarantine }: Pick<Push, 'repository' | 'quarantine'>,
): Promise<Git> {
  if (quarantine === undefined) return git
  await assertWithin(repository.path, quarantine)
  return withObjects(git, quarantine, join(repository.path, 'objects'))
}

/** Returns a git whose processes see only the objects in a quarantine that was opened before. */
export function isolateQuarantine(git: Git, quarantine: string): Git {
  return withObjects(git, quarantine, '')
}

/** Lets git use as much memory as for a push: to read an object it maps a whole pack. */
export function withPushLimits(
  git: Git,
  { pushMemoryMaxBytes: memoryMaxBytes }: Pick<PlainSettings, 'pushMemoryMaxBytes'>,
): Git {
  return withOptions(git, { limits: { memoryMaxBytes } })
}

function withObjects(git: Git, quarantine: string, alternates: string): Git {
  const variables = {
    GIT_OBJECT_DIRECTORY: quarantine,
    GIT_ALTERNATE_OBJECT_DIRECTORIES: alternates,
  }
  return withOptions(git, { variables })
}

/** The SSH process, which passes this directory on, may not have other files stored. */
async function assertWithin(directory: string, quarantine: string): Promise<void> {
  const [objects, actual] = await Promise.all([
    realpath(join(directory, 'objects')),
    realpath(quarantine),
  ])
  if (dirname(actual) !== objects) throw new Error(`${quarantine} is not a quarantine directory.`)
}
