import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Source } from './fixtures.ts'
import type { Workspace } from './workspace.ts'

const branchesToATag = 20

/** Copies a repository and adds many branches and tags at commits throughout its history. */
export async function makeManyRefs(
  { folder, git }: Workspace,
  { path: from, ref }: Source,
  count: number,
): Promise<Source> {
  const name = `refs-${count}`
  const path = join(folder, `${name}.git`)
  await cp(from, path, { recursive: true, force: true })
  const { output } = await git(['-C', path, 'rev-list', ref])
  const commits = output.split('\n')
  const refs = Array.from({ length: count - 1 }, (_, index) => {
    const kind = index % branchesToATag === 0 ? 'tags/v' : `heads/team-${index % 40}/change-`
    return `${commits[index % commits.length]} refs/${kind}${String(index).padStart(6, '0')}`
  })
  const all = [`${commits[0]} ${ref}`, ...refs].toSorted((a, b) =>
    a.slice(41) < b.slice(41) ? -1 : 1,
  )
  await git(['-C', path, 'pack-refs', '--all', '--prune'])
  // Git writes a file for each ref before it packs them, which takes minutes; gitrepository-layout(5) has the format.
  await writeFile(
    join(path, 'packed-refs'),
    `# pack-refs with: peeled fully-peeled sorted \n${all.join('\n')}\n`,
  )
  return { name, path, ref, config: {} }
}
