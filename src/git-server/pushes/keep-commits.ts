import type { FaultPoint } from '#base/fault-points.ts'
import type { Db } from '#database/schema.ts'
import { gitCommands } from '#git/process/commands.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import type { Body } from '#git/protocol/request-body.ts'
import { isConnected } from '#git/refs/ancestry.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { Hold, RepositoryHolds } from '#repositories/repository-holds.ts'
import type { Change, CommittedChange } from '#repositories/store/commit-change.ts'
import { deleteRefs, lockRepository, raiseVersion } from '#repositories/store/ref-store.ts'
import type { SharedChanges } from '#repositories/store/store.ts'
import { openQuarantine, readPushedObjects } from '../push/pushed-objects.ts'
import { createQuarantine } from '../small-packs/quarantine.ts'
import { moveHeldRefs } from './retained-commits.ts'

/** Commits to keep, by the hidden refs that name them; `tip` leads to all of them. */
type KeptCommits = {
  repository: Repository
  tip: string
  refs: ReadonlyMap<string, string>
  /** The objects that the repository does not have; undefined for none. */
  pack: Body | undefined
}

/** Keeps commits that belong to no branch, without a push. */
export type KeepCommits = {
  /** Brings commits into a repository with hidden refs. */
  keep: (kept: KeptCommits) => Promise<void>
  /** Deletes hidden refs, as far as they exist. */
  release: (repository: Pick<Repository, 'id' | 'path'>, refs: readonly string[]) => Promise<void>
}

type LocalParts = {
  git: Git
  directories: Pick<Directories, 'pathOf'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
}

export function createLocalKeeper(parts: LocalParts): KeepCommits {
  const { git, repositoryHolds } = parts
  return {
    async keep({ repository, refs, pack }) {
      if (pack) {
        await using hold = await repositoryHolds.acquire(repository.id)
        await using quarantine = await createQuarantine(repository.path)
        await takePack(git, { repository, quarantine: quarantine.path, pack }, hold)
        await quarantine.sync()
        await quarantine.migrate()
      }
      const moves = [...refs].map(([ref, to]) => ({ ref, to }))
      await moveHeldRefs(parts, repository.id, moves)
    },

    release: ({ id }, refs) =>
      moveHeldRefs(
        parts,
        id,
        refs.map((ref) => ({ ref, to: zeroId })),
      ),
  }
}

type SharedParts = {
  git: Git
  shared: SharedChanges
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  faultPoint: FaultPoint
}

export function createSharedKeeper(parts: SharedParts): KeepCommits {
  const { git, shared, repositoryHolds } = parts
  return {
    async keep({ repository, refs, pack, tip }) {
      await using hold = await repositoryHolds.acquire(repository.id)
      await using quarantine = await createQuarantine(repository.path)
      if (pack) await takePack(git, { repository, quarantine: quarantine.path, pack }, hold)
      const folder = pack && quarantine.path
      const kept = { repository, quarantine: folder, tip, retain: () => new Map(refs) }
      const nothing = { begin: async () => ({ pushedAt: 0 }), record: async () => {} }
      const committed = await commitKept(parts, kept, nothing)
      if (pack) await quarantine.migrate()
      if (committed) await shared.show(repository.id, committed)
    },

    release: ({ id }, refs) =>
      shared.transaction(id, async (tx) => {
        const repository = await lockRepository(tx, id)
        if (!repository) return
        await deleteRefs(tx, id, [...refs])
        await raiseVersion(tx, id, repository)
      }),
  }
}

/** Makes commits with their hidden refs, and what is recorded of them, durable in one transaction. */
export async function commitKept(
  { git, shared, faultPoint }: Pick<SharedParts, 'git' | 'shared' | 'faultPoint'>,
  {
    repository,
    quarantine,
    tip,
    retain,
  }: {
    repository: Repository
    quarantine: string | undefined
    tip: string
    retain: Change['retain']
  },
  {
    begin,
    record,
  }: Pick<Change, 'begin'> & { record: (tx: Db, change: CommittedChange) => Promise<void> },
): Promise<CommittedChange | undefined> {
  const update = { ref: 'refs/heads/kept', before: zeroId, after: tip }
  const { objects, peeled, scopedGit } = await readPushedObjects(git, { repository, quarantine }, [
    update,
  ])
  const { committed } = await shared.commit(
    {
      ...{ repositoryId: repository.id, updates: [], isAtomic: true, objects, peeled },
      ...{ pruneEpoch: repository.pruneEpoch, begin, retain },
      isConnected: () => isConnected(scopedGit, repository.path, [update]),
      async record(tx, change) {
        await record(tx, change)
        faultPoint('shared-push.recorded')
      },
    },
    quarantine,
  )
  return committed
}

type Taking = { repository: Repository; quarantine: string; pack: Body }

const packMaxBytes = 1024 ** 3

/** Writes a pack of the server's own into a quarantine, and checks it as one of a client. */
async function takePack(
  git: Git,
  { repository, quarantine, pack }: Taking,
  hold: Pick<Hold, 'watch'>,
): Promise<void> {
  const scopedGit = await openQuarantine(git, { repository, quarantine })
  await using child = await scopedGit.start(
    gitCommands.takePack(repository.path, String(packMaxBytes)),
  )
  hold.watch(child.ended)
  child.stdout.resume()
  for await (const chunk of pack) child.stdin.write(chunk)
  child.stdin.end()
  const ended = await child.ended
  if (ended.exitCode !== 0) throw new GitError('index-pack', ended)
}
