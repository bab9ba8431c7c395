import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Fixtures } from './fixtures.ts'
import { publish } from './git-commands.ts'
import { compare, type Effort } from './measure.ts'
import { installPeer, startHttpPeer } from './peers.ts'
import { print } from './print.ts'
import { type Medians, type Row, timeRow } from './rows.ts'
import { type Svc, startSvc } from './svc.ts'
import type { Workspace } from './workspace.ts'

/** Compares imports with `git clone --mirror` and `git fsck`: from a directory, and over HTTP from git http-backend. */
export async function measureImports(
  workspace: Workspace,
  { history }: Fixtures,
  { imports: rounds, seconds }: { imports: number; seconds: number },
): Promise<Row[]> {
  print('Starting git http-backend behind nginx and fcgiwrap, and svc')
  await using peer = await startHttpPeer(workspace, await installPeer('http'))
  await using svc = await startSvc({ dataDir: join(workspace.folder, 'data-import') })
  const address = await publish(workspace, peer.defaults, history)
  // A copy, since the history has further commits for other comparisons.
  const directory = join(workspace.folder, 'source.git')
  await workspace.git(['clone', '--quiet', '--mirror', address, directory])
  const effort = { rounds, seconds }
  const rows = [
    timeRow('import: from a directory', await compareImport(workspace, svc, directory, effort)),
    timeRow('import: over HTTP', await compareImport(workspace, svc, address, effort)),
  ]
  await svc.stop()
  return rows
}

function compareImport(
  workspace: Workspace,
  svc: Svc,
  source: string,
  effort: Effort,
): Promise<Medians> {
  const { git, folder } = workspace
  const contestants = {
    async svc() {
      await workspace.sync()
      const startedAt = performance.now()
      await svc.import(source, 'imported')
      const elapsedMs = performance.now() - startedAt
      await svc.host.remove('imported')
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
  return compare(`import from ${source}`, contestants, effort)
}
