import { join } from 'node:path'
import { type Fixtures, makeManyRefs } from './fixtures.ts'
import { compareOnWire, mediansOf } from './measure.ts'
import { print } from './print.ts'
import { type Row, timeRow } from './rows.ts'
import { type Svc, startSvc } from './svc.ts'
import { listingRequests } from './wire-client.ts'
import type { Workspace } from './workspace.ts'

const few = 10
const listedName = 'listed'
const maxConcurrentCreations = 8

/** Compares svc with itself: with many repositories and with few, with many refs and with one. */
export async function measureGrowth(
  workspace: Workspace,
  { history }: Fixtures,
  effort: { repositories: number; refs: number; rounds: number; ms: number; seconds: number },
): Promise<Row[]> {
  const { repositories, refs, ...wireEffort } = effort
  const oneRef = await makeManyRefs(workspace, history, 1)
  const manyRefs = await makeManyRefs(workspace, history, refs)
  await using small = await startSvc({ dataDir: join(workspace.folder, 'data-small') })
  await using large = await startSvc({ dataDir: join(workspace.folder, 'data-large') })
  print(`Creating ${repositories} repositories`)
  await createRepositories(small, few)
  await createRepositories(large, repositories)
  await small.host.copy(listedName, oneRef.path)
  await large.host.copy(listedName, oneRef.path)
  await large.host.copy(manyRefs.name, manyRefs.path)
  const byRepositories = await compareOnWire(
    `listing with ${repositories} repositories, beside ${few}`,
    { svc: large.target(listedName), peer: small.target(listedName) },
    { ...wireEffort, requests: () => listingRequests() },
  )
  const byRefs = await compareOnWire(
    `listing of 1 of ${refs} refs, beside 1 of 1`,
    { svc: large.target(manyRefs.name), peer: large.target(listedName) },
    { ...wireEffort, requests: () => listingRequests('refs/heads/main') },
  )
  await small.stop()
  await large.stop()
  return [
    timeRow('growth: listing with many repositories', mediansOf(byRepositories, 'p50')),
    timeRow('growth: listing of 1 of 100,000 refs', mediansOf(byRefs, 'p50')),
  ]
}

async function createRepositories({ host }: Svc, count: number): Promise<void> {
  const names = Array.from({ length: count - 1 }, (_, index) => `repository-${index}`)
  const create = async () => {
    for (let name = names.pop(); name !== undefined; name = names.pop()) await host.create(name)
  }
  await Promise.all(Array.from({ length: maxConcurrentCreations }, create))
}
