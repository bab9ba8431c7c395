import { join } from 'node:path'
import type { Source } from './fixtures.ts'
import type { Workspace } from './workspace.ts'

/** A repository with all commits of another in so many packs, as many pushes leave it. */
export async function makeManyPacks(
  { folder, git }: Workspace,
  { path: from, ref }: Source,
  count: number,
): Promise<Source> {
  const name = `packs-${count}`
  const path = join(folder, `${name}.git`)
  const { output } = await git(['-C', from, 'rev-list', '--reverse', '--first-parent', ref])
  const commits = output.split('\n')
  await git(['init', '--quiet', '--bare', '--initial-branch=main', path])
  for (let pack = 1; pack <= count; pack++) {
    const commit = commits[Math.ceil((commits.length * pack) / count) - 1]
    await git(['-C', path, 'fetch', '--quiet', from, `+${commit}:${ref}`], {
      config: { 'fetch.unpackLimit': '1' },
    })
  }
  await git(['-C', path, 'pack-refs', '--all'])
  return { name, path, ref, config: {} }
}
