import { git, type Project } from './git.ts'
import type { Client } from './service.ts'

const date = '2026-01-02T03:04:05Z'

/** Commits through the API as the admin, without a change of files. The date makes the id known before. */
export const commitDated = (admin: Client, name: string, expectedHead: string) =>
  admin.post(`/repos/${name}/commits`, {
    ...{ branch: 'main', expectedHead, message: 'Dated', date },
    ...{ changes: [], allowEmpty: true },
  })

/** The id of the commit that `commitDated` makes, by git. */
export async function datedCommit({ path }: Project, parent: string): Promise<string> {
  const who = { NAME: 'admin', EMAIL: 'admin@users.noreply.localhost', DATE: date }
  const variables = ['AUTHOR', 'COMMITTER'].flatMap((role) =>
    Object.entries(who).map(([key, value]) => [`GIT_${role}_${key}`, value]),
  )
  const args = ['commit-tree', '-p', parent, '-m', 'Dated', `${parent}^{tree}`]
  return (await git(path, args, Object.fromEntries(variables))).stdout
}
