import { createWriteStream } from 'node:fs'
import { copyFile, lchown, lstat, mkdir, readlink, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { checkOut, checkOutAgain } from '#actions/runner/check-out.ts'
import { createSourceCache, openSourcePack, type SourcePack } from '#actions/runner/run-source.ts'
import type { Workspace } from '#actions/sandbox/sandbox.ts'
import type { Plan } from '#actions/workflow-engine/plan.ts'
import type { CheckOut, CheckOutAgain, SourceRequest } from '#actions/workflow-engine/run-state.ts'
import { ignoreAbsence } from '#base/absence.ts'
import type { Git } from '#git/process/git-process.ts'
import { streamCommits } from '#workflows/commits/run-commits.ts'
import type { WorkingTree } from './working-tree.ts'

type Options = {
  git: Git
  tree: WorkingTree
  /** The files of the working tree that jobs get. */
  files: readonly string[]
  plan: Plan
  /** Where commits are kept for the time of the run. */
  folder: string
  /** PATH for finding git. */
  path: string
}

/**
 * The checkouts of `svc run`: a job starts with the files of the working tree, in a repository with its commit; steps
 * check out commits. When it is disposed, nothing is written to the folder any more.
 */
export function createLocalCheckout(options: Options): AsyncDisposable & {
  checkOut: CheckOut
  checkOutAgain: CheckOutAgain
} {
  const { git, tree, files, plan, folder, path } = options
  const { commit } = tree
  const done = new AbortController()

  async function write(request: SourceRequest, file: string): Promise<SourcePack> {
    if (commit === undefined) throw new Error('The repository has no commit yet.')
    const run = { commit, ref: tree.ref, pushed: undefined }
    const { signal } = done
    const commits = { git, directory: tree.gitFolder, run, request, signal }
    await pipeline(await streamCommits(commits), createWriteStream(file), { signal })
    return openSourcePack(file)
  }

  const sources = createSourceCache(folder, write)

  return {
    async checkOut(workspace, signal) {
      if (commit !== undefined) {
        const source = sources.get({ ref: undefined, depth: 1, tags: false })
        await checkOut({ workspace, plan, source, path, signal })
        await emptyWorkspace(workspace, path, signal)
      }
      await copyTree(tree.folder, files, workspace)
    },

    checkOutAgain: (workspace, checkout, signal) =>
      checkOutAgain({
        ...{ workspace, plan, checkout, path, signal },
        source: sources.get(checkout.source),
      }),

    async [Symbol.asyncDispose]() {
      done.abort()
      await sources.settled()
    },
  }
}

// Committed files may be deleted in the working tree.
async function emptyWorkspace(
  workspace: Workspace,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const tests = ['-mindepth', '1', '-maxdepth', '1', '!', '-name', '.git']
  const { exitCode, detail } = await workspace.run({
    command: ['find', '.', ...tests, '-exec', 'rm', '-rf', '--', '{}', '+'],
    env: { PATH: path },
    cwd: workspace.inside.workspace,
    timeoutMs: 60_000,
    signal,
    onOutput: () => {},
  })
  if (exitCode !== 0) throw new Error(`The workspace could not be prepared. ${detail}`)
}

/**
 * Copies files and links, by their paths relative to `from`, into a workspace in which no step has run yet, and
 * gives them its owner. Skips other kinds of files, and files deleted in the meantime.
 */
export async function copyTree(
  from: string,
  paths: readonly string[],
  target: Workspace,
): Promise<void> {
  const { workspace } = target.outside
  const owner = await lstat(workspace)
  const own = (path: string) => lchown(path, owner.uid, owner.gid)
  const created = new Set(['.'])

  async function makeFolder(path: string): Promise<void> {
    if (created.has(path)) return
    created.add(path)
    await makeFolder(dirname(path))
    await mkdir(join(workspace, path), { recursive: true })
    await own(join(workspace, path))
  }

  for (const path of paths) {
    const source = join(from, path)
    const copy = join(workspace, path)
    const stat = await lstat(source).catch(ignoreAbsence)
    if (!stat?.isFile() && !stat?.isSymbolicLink()) continue
    await makeFolder(dirname(path))
    if (stat.isFile()) await copyFile(source, copy)
    else await symlink(await readlink(source), copy)
    await own(copy)
  }
}
