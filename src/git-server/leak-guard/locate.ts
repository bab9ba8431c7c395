import { setImmediate } from 'node:timers/promises'
import { listNewFiles, type NewCommit } from '#git/objects/new-files.ts'
import { type ObjectReader, ObjectTooLargeError, openObjects } from '#git/objects/object-reader.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import type { Git } from '#git/process/git-process.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import type { Credential } from './credential.ts'
import type { LeakyObject } from './scan-objects.ts'
import { scanText } from './scan-text.ts'

/** A credential that a push adds, and where. */
export type LocatedCredential = Credential & {
  /** The file; empty for a message, or when it is unknown. */
  path: string
  in: 'file' | 'commit message' | 'tag message' | 'object'
  /** The commit that adds it, or the id of the tag or of another object. */
  object: string
  /** A ref that leads to it; empty when it is unknown. */
  ref: string
}

type Gits = {
  /** Sees what the repository had before. */
  git: Git
  /** Sees the objects of the push, too. */
  scopedGit: Git
}

const formerMaxBytes = 5 * 1024 * 1024
// Per push. Credentials count as new when what was before is not read.
const maxFormer = 1000
// Per push. One object can be in any number of files, and each is a finding.
const maxLocated = 1000
const placesPerStep = 100

/**
 * Locates the credentials in new objects, up to a number. Left out are objects that the repository had before, and
 * credentials that a parent of the commit has in a file which the commit changes or moves.
 */
export async function locateCredentials(
  { git, scopedGit }: Gits,
  directory: string,
  updates: readonly RefUpdate[],
  leaky: readonly LeakyObject[],
): Promise<LocatedCredential[]> {
  const known = await findObjects(
    git,
    directory,
    leaky.map(({ id }) => id),
  )
  const unknown = leaky.filter(({ id }) => !known.has(id))
  if (unknown.length === 0) return []
  const tips = [...new Set(updates.map(({ after }) => after))].filter((id) => !/^0+$/.test(id))
  const wanted = new Set(unknown.map(({ id }) => id))
  const commits = await listNewFiles(scopedGit, directory, tips, wanted)
  await using reader = await openObjects(scopedGit, directory)
  const context = {
    refs: new Map(updates.map(({ after, ref }) => [after, ref])),
    commits: new Map(commits.map((commit) => [commit.id, commit])),
    places: placesOf(commits, wanted),
    former: createFormer(reader),
  }
  const located: LocatedCredential[] = []
  for (const object of unknown) {
    for await (const found of locate(object, context)) {
      located.push(found)
      if (located.length === maxLocated) return located
    }
  }
  return located
}

type Place = { commit: NewCommit; path: string }

/** For each path of each content, a commit that none of the others is an ancestor of. */
function placesOf(
  commits: readonly NewCommit[],
  wanted: ReadonlySet<string>,
): Map<string, Map<string, Place>> {
  const places = new Map<string, Map<string, Place>>()
  for (const commit of commits) {
    for (const { path, after } of commit.files) {
      if (!wanted.has(after)) continue
      const paths = places.get(after) ?? new Map<string, Place>()
      places.set(after, paths.set(path, { commit, path }))
    }
  }
  return places
}

type Context = {
  refs: Map<string, string>
  commits: Map<string, NewCommit>
  places: Map<string, Map<string, Place>>
  former: Former
}

async function* locate(
  { id, type, credentials }: LeakyObject,
  { refs, commits, places, former }: Context,
): AsyncGenerator<LocatedCredential, void> {
  if (type !== 'blob') {
    const ref = refs.get(commits.get(id)?.source ?? id) ?? ''
    const about = { path: '', in: `${type} message`, object: id, ref } as const
    for (const credential of credentials) yield { ...credential, ...about }
    return
  }
  const all = [...(places.get(id)?.values() ?? [])]
  if (all.length === 0) {
    const about = { path: '', in: 'object', object: id, ref: refs.get(id) ?? '' } as const
    for (const credential of credentials) yield { ...credential, ...about }
  }
  for (const [index, place] of all.entries()) {
    // Awaiting what is in memory blocks the event loop.
    if (index % placesPerStep === placesPerStep - 1) await setImmediate()
    const { commit, path } = place
    const ref = refs.get(commit.source) ?? ''
    for (const credential of credentials) {
      if (await former.has(place, credential)) continue
      yield { ...credential, path, in: 'file', object: commit.id, ref }
    }
  }
}

/** The credentials that the parents of commits have in place of the files which the commits change. */
type Former = { has: (place: Place, credential: Credential) => Promise<boolean> }

/** The former contents of the files of one commit. */
type FormerFiles = {
  idsByPath: ReadonlyMap<string, string[]>
  /** Those that are not read yet. */
  unread: Iterator<string>
  /** The keys of the credentials in those that are read. */
  secrets: Set<string>
}

/** Reads each content once, first that of the same path. */
function createFormer(reader: ObjectReader): Former {
  const contents = new Map<string, Set<string>>()
  const filesByCommit = new Map<string, FormerFiles>()

  async function read(id: string): Promise<Set<string>> {
    const known = contents.get(id)
    if (known) return known
    if (contents.size >= maxFormer) return new Set()
    const object = await reader.read(id, formerMaxBytes).catch((error) => {
      if (error instanceof ObjectTooLargeError) return undefined
      throw error
    })
    const secrets = new Set(object ? scanText(object.content).map(toKey) : [])
    contents.set(id, secrets)
    return secrets
  }

  function filesOf(commit: NewCommit): FormerFiles {
    const known = filesByCommit.get(commit.id)
    if (known) return known
    const files = toFormerFiles(commit)
    filesByCommit.set(commit.id, files)
    return files
  }

  return {
    async has({ commit, path }, credential) {
      const key = toKey(credential)
      const { idsByPath, unread, secrets } = filesOf(commit)
      for (const id of idsByPath.get(path) ?? []) if ((await read(id)).has(key)) return true
      while (!secrets.has(key)) {
        const { value: id, done } = unread.next()
        if (done) return false
        for (const found of await read(id)) secrets.add(found)
      }
      return true
    },
  }
}

function toFormerFiles({ files }: NewCommit): FormerFiles {
  const idsByPath = new Map(
    files.map(({ path, before }) => [path, before.filter((id) => !/^0+$/.test(id))]),
  )
  const unread = new Set([...idsByPath.values()].flat()).values()
  return { idsByPath, unread, secrets: new Set() }
}

function toKey({ kind, secret }: Credential): string {
  return `${kind}\0${secret}`
}
