import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { contest, type Effort, type Result } from './operations.ts'
import type { startSubject } from './subject.ts'
import type { Workspace } from './workspace.ts'

type Subject = Pick<Awaited<ReturnType<typeof startSubject>>, 'host' | 'import'>

/** Compares an import of svc with `git clone --mirror` and `git fsck`, which is the same work. */
export async function measureImport(
  workspace: Workspace,
  subject: Subject,
  { from, source, ...effort }: Effort & { from: string; source: string },
): Promise<Result> {
  const { git, folder } = workspace
  const contestants = {
    async svc() {
      await workspace.sync()
      const startedAt = performance.now()
      await subject.import(source, 'imported')
      const elapsedMs = performance.now() - startedAt
      await subject.host.remove('imported')
      return elapsedMs
    },
    async peer() {
      await workspace.sync()
      const cloning = await git(['clone', '--quiet', '--mirror', source, 'mirror'])
      const checking = await git(['-C', 'mirror', 'fsck'])
      await rm(join(folder, 'mirror'), { recursive: true })
      return cloning.elapsedMs + checking.elapsedMs
    },
  }
  return contest(`of 3,000 commits from ${from}`, contestants, effort)
}
