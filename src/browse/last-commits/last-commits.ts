import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { createResultCache } from '#base/concurrency/result-cache.ts'
import { createSemaphore } from '#base/concurrency/semaphore.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import { entryAt, entryCount } from '#git/objects/tree-buffer.ts'
import type { Git } from '#git/process/git-process.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { RawPath } from '../api-path.ts'
import type { CommitsById } from '../commits-by-id.ts'
import { type Trees, treeMode } from '../trees.ts'
import { walkByDate } from '../walk-by-date.ts'
import type { LastCommitFiles } from './last-commit-files.ts'
import {
  type LastCommitsByName,
  type WaitingEntries,
  type WalkedCommit,
  walkLastCommits,
} from './last-commit-walk.ts'
import { prepareAhead, walkCommits } from './walked-commits.ts'

/** A folder in a commit. */
type Folder = {
  repository: Pick<Repository, 'id' | 'path'>
  objects: ObjectReader
  commit: string
  /** The path of the folder, and the id of its tree in the commit. */
  path: RawPath
  tree: string
}

/** The commits that last changed the entries of folders, as `git log -1 -- <entry>` finds them. */
export type LastCommits = AsyncDisposable & {
  /**
   * Returns the answers for the entries of a folder that are found within a moment. The search goes on, so that a later call
   * returns more. A search that takes too long is paused, and the next call resumes it.
   */
  of: (folder: Folder) => Promise<{ byName: LastCommitsByName; isComplete: boolean }>
  /**
   * Returns the answer for one entry if it is cached, or among the newest commits; otherwise undefined, because git is faster
   * then. Starts no search.
   */
  ofEntry: (folder: Folder, name: string) => Promise<string | undefined>
  /** Fulfilled when no search is running or waiting. */
  idle: () => Promise<void>
}

type Options = {
  git: Git
  trees: Trees
  commits: CommitsById
  files: Pick<LastCommitFiles, 'load' | 'save'>
  log: Log
  /** How long a call waits. */
  waitMs?: number
  /** Starts the time after which a search ends. */
  startDeadline?: () => AbortSignal
  /** Answers that took fewer commits to find are not written to files. */
  savedFrom?: number
  /** How many commits are looked at before git is started: mostly one of them has known answers. */
  maxNearby?: number
  /** The same for a single entry, for which git needs less time. */
  maxNearbyOfEntry?: number
}

/** The answers for a folder in a commit; final when a further search would find no more. */
type Answers = {
  byName: Map<string, string>
  isComplete: boolean
  isFinal: boolean
  /** Where the next search resumes. */
  waiting: WaitingEntries
}

type Search = { answers: Answers; done: Promise<void> }

/** Last commits are not searched in larger folders. */
export const searchedMaxEntries = 10_000
const searchMaxMs = 30_000
const answersMaxBytes = 32 * 1024 * 1024
const answerBytes = 100
const maxSearchesPerRepository = 4
const commitsAhead = 64
const maxFoldersKnown = 4096
const preparedMaxBytes = 64 * 1024
const maxParentsAhead = 2
// Of the names of folders.
const loadedMaxLength = 1024 * 1024

export function createLastCommits({
  git,
  trees,
  commits: commitsById,
  files,
  log,
  waitMs = 150,
  startDeadline = () => AbortSignal.timeout(searchMaxMs),
  savedFrom = 256,
  maxNearby = 40,
  maxNearbyOfEntry = 10,
}: Options): LastCommits {
  const known = new LRUCache<string, Answers>({
    maxSize: answersMaxBytes,
    sizeCalculation: (answers, key) => 500 + key.length + answerBytes * nameCount(answers),
  })
  /** Folders whose files were read, or are being read. */
  const loaded = createResultCache<void>({ lengthOf: () => 1, maxLength: loadedMaxLength })
  /** The searches that run or wait, by repository and key. One of a repository runs at a time. */
  const searches = new Map<string, Map<string, Search>>()
  const permits = createSemaphore(Math.max(2, availableParallelism()))
  const stopping = new AbortController()

  const keyOf = ({ repository, path }: Folder, commit: string) =>
    `${repository.id} ${commit} ${path}`

  function load(folder: Folder): Promise<void> {
    const { id } = folder.repository
    return loaded(`${id} ${folder.path}`, () =>
      readFile(folder).catch((error) =>
        log.warn({ err: error, repository: id }, 'kept last commits are unreadable'),
      ),
    )
  }

  async function readFile(folder: Folder): Promise<void> {
    const { repository, path } = folder
    const stored = await files.load(repository.id, path)
    if (!stored) return
    const answers = {
      ...noAnswers(),
      byName: new Map(stored.byName),
      isComplete: true,
      isFinal: true,
    }
    for (const commit of stored.commits) known.set(keyOf(folder, commit), answers)
  }

  /** Finds the id of the folder in other commits. */
  function createFolderIn(folder: Folder) {
    const { objects, path } = folder
    const found = new LRUCache<string, Promise<string | undefined>>({
      maxSize: maxFoldersKnown,
      sizeCalculation: () => 1,
    })
    const find = async (commit: string) => {
      if (isPlain(path)) {
        const tree = await objects.find(`${commit}:${Buffer.from(path, 'latin1').toString('utf8')}`)
        return tree?.type === 'tree' ? tree.id : undefined
      }
      const root = await objects.find(`${commit}^{tree}`)
      if (!root) return undefined
      const entry = await trees.find(objects, root.id, path).catch(absentPath)
      return entry?.mode === treeMode ? entry.id : undefined
    }
    const folderIn = (commit: string) => {
      const before = found.get(commit)
      if (before) return before
      const finding = find(commit)
      // Awaited only when it is needed.
      finding.catch(() => {})
      found.set(commit, finding)
      return finding
    }
    const isKnown = (commit: string, id: string) => found.set(commit, Promise.resolve(id))
    return { folderIn, isKnown }
  }

  /** The newest commits of a history. */
  async function* nearbyCommits(
    { objects, commit, path }: Folder,
    { folderIn, isKnown }: ReturnType<typeof createFolderIn>,
    { max, signal }: { max: number; signal: AbortSignal },
  ): AsyncGenerator<WalkedCommit, void, undefined> {
    let left = max
    for await (const one of walkByDate(objects, commitsById, commit)) {
      if (!one || left === 0) return
      signal.throwIfAborted()
      const { tree: root, parents } = one.commit
      if (path === '') isKnown(one.id, root)
      for (const id of [one.id, ...parents.slice(0, maxParentsAhead)]) void folderIn(id)
      yield { id: one.id, parents }
      left -= 1
    }
  }

  function sourceOf(folder: Folder, { folderIn }: ReturnType<typeof createFolderIn>) {
    return {
      folderIn,
      open: (id: string) => trees.open(folder.objects, id),
      known: (id: string) => known.get(keyOf(folder, id)),
    }
  }

  async function search(folder: Folder, answers: Answers): Promise<void> {
    const { repository, objects, commit, path, tree } = folder
    using _permit = await permits.acquire(stopping.signal)
    const deadline = startDeadline()
    const signal = AbortSignal.any([stopping.signal, deadline])
    await load(folder)
    const top = await trees.open(objects, tree)
    const names = Array.from({ length: entryCount(top) }, (_, index) => entryAt(top, index).name)
    const folders = createFolderIn(folder)
    const { folderIn, isKnown } = folders
    const isPrepared = top.content.length <= preparedMaxBytes
    const prepare = async (id: string) => {
      const wanted = await folderIn(id)
      if (isPrepared && wanted !== undefined) await trees.open(objects, wanted)
    }
    let first: string | undefined
    let count = 0
    const nearby = nearbyCommits(folder, folders, { max: maxNearby, signal })
    async function* commits(from: Iterable<string>) {
      const walked = walkCommits(git, { directory: repository.path, from, path, signal })
      const ahead = prepareAhead(walked, commitsAhead, (one) => {
        if (path === '') isKnown(one.id, one.tree)
        prepare(one.id).catch(() => {})
      })
      for await (const one of ahead) {
        signal.throwIfAborted()
        // Bounds how many objects are awaited of commits that are passed over.
        await folderIn(one.id)
        first ??= one.id
        count += 1
        yield one
      }
    }
    const source = sourceOf(folder, folders)
    const onAnswer = (name: string, id: string) => void answers.byName.set(name, id)
    const isResumed = answers.waiting.size > 0
    // A copy, so that a search that fails leaves the original as it was.
    const waiting: WaitingEntries = new Map(
      [...answers.waiting].map(([id, entries]) => [id, new Set(entries)]),
    )
    try {
      let left = isResumed
        ? new Set<string>()
        : await walkLastCommits(names, { ...source, commits: nearby }, onAnswer)
      if (isResumed || left.size > 0) {
        const from = isResumed ? [...waiting.keys()] : [commit]
        left = await walkLastCommits(left, { ...source, waiting, commits: commits(from) }, onAnswer)
      }
      answers.isComplete = left.size === 0
      answers.isFinal = true
    } catch (error) {
      if (error !== deadline.reason) throw error
      // A search without progress would not progress on retry.
      answers.isFinal = count === 0
    }
    answers.waiting = answers.isFinal ? new Map() : waiting
    // The first commit has the same folder: those between do not change it.
    const visited = [...new Set([commit, (isResumed ? undefined : first) ?? commit])]
    for (const id of visited) known.set(keyOf(folder, id), answers)
    if (answers.isComplete && (isResumed || count >= savedFrom))
      await files.save(repository.id, path, { commits: visited, byName: answers.byName })
  }

  /** Starts a search, or joins one; undefined when too many are waiting. */
  function join(folder: Folder, key: string): Search | undefined {
    const { id } = folder.repository
    const ofRepository = searches.get(id) ?? new Map<string, Search>()
    const joined = ofRepository.get(key)
    if (joined || ofRepository.size >= maxSearchesPerRepository || stopping.signal.aborted)
      return joined
    const before = [...ofRepository.values()].at(-1)?.done ?? Promise.resolve()
    const answers = known.get(key) ?? noAnswers()
    const done = before
      .then(() => search(folder, answers))
      .catch((error) => {
        if (!stopping.signal.aborted)
          log.warn({ err: error, repository: id }, 'search for last commits failed')
      })
      .finally(() => {
        ofRepository.delete(key)
        if (ofRepository.size === 0) searches.delete(id)
      })
    ofRepository.set(key, { answers, done })
    searches.set(id, ofRepository)
    return { answers, done }
  }

  async function idle(): Promise<void> {
    while (searches.size > 0) {
      const all = [...searches.values()].flatMap((one) => [...one.values()])
      await Promise.all(all.map(({ done }) => done))
    }
  }

  return {
    async of(folder) {
      const key = keyOf(folder, folder.commit)
      const before = known.get(key)
      if (before?.isFinal) return before
      const joined = join(folder, key)
      if (!joined) return { byName: new Map(), isComplete: false }
      const ended = new AbortController()
      await Promise.race([
        joined.done,
        sleep(waitMs, undefined, { signal: ended.signal }).catch(() => {}),
      ])
      ended.abort()
      return joined.answers
    },

    async ofEntry(folder, name) {
      const before = known.get(keyOf(folder, folder.commit))
      const answer = before?.byName.get(name)
      if (answer !== undefined || before?.isFinal) return answer
      const { objects, tree } = folder
      // Large trees are many bytes to read for each commit.
      if ((await trees.open(objects, tree)).content.length > preparedMaxBytes) return undefined
      await load(folder)
      const folders = createFolderIn(folder)
      const limits = { max: maxNearbyOfEntry, signal: stopping.signal }
      const commits = nearbyCommits(folder, folders, limits)
      let found: string | undefined
      await walkLastCommits([name], { ...sourceOf(folder, folders), commits }, (_, id) => {
        found = id
      })
      return found
    },

    idle,

    async [Symbol.asyncDispose]() {
      stopping.abort()
      await idle()
    },
  }
}

function noAnswers(): Answers {
  return { byName: new Map(), isComplete: false, isFinal: false, waiting: new Map() }
}

function nameCount({ byName, waiting }: Answers): number {
  return byName.size + waiting.values().reduce((sum, { size }) => sum + size, 0)
}

/** Whether git takes a path in `<commit>:<path>` on a line of its input. */
function isPlain(path: RawPath): boolean {
  const bytes = Buffer.from(path, 'latin1')
  return !/[\n\r]/.test(path) && Buffer.from(bytes.toString('utf8'), 'utf8').equals(bytes)
}

function absentPath(error: unknown): undefined {
  if (!(error instanceof Problem) || error.code !== 'path_not_found') throw error
}
