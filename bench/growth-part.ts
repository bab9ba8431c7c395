import { join } from 'node:path'
import { growthRows } from './bounds.ts'
import type { Fixtures } from './fixtures.ts'
import { say } from './output.ts'
import { makeManyRefs } from './ref-fixtures.ts'
import { startSubject } from './subject.ts'
import type { Row } from './table.ts'
import { listingPair, wireContest } from './wire.ts'
import type { Workspace } from './workspace.ts'

const few = 10
const asked = 'asked'
const maxConcurrentCreations = 8

/** Compares svc with itself: with few repositories and with many, with one ref and with many. */
export async function measureAsItGrows(
  workspace: Workspace,
  { history }: Fixtures,
  effort: { repositories: number; refs: number; rounds: number; ms: number; seconds: number },
): Promise<Row[]> {
  const { repositories, refs, ...ofEach } = effort
  const one = await makeManyRefs(workspace, history, 1)
  const many = await makeManyRefs(workspace, history, refs)
  const { folder } = workspace
  await using small = await startSubject({ dataDir: join(folder, 'data-small') })
  await using large = await startSubject({ dataDir: join(folder, 'data-large') })
  say(`Making ${repositories} repositories`)
  await makeRepositories(small, few)
  await makeRepositories(large, repositories)
  await small.host.copy(asked, one.path)
  await large.host.copy(asked, one.path)
  await large.host.copy(many.name, many.path)
  const alone = { ...ofEach, connections: 1 }
  const byRepositories = await wireContest(
    `listing with ${repositories} repositories, beside ${few}`,
    { svc: large.target(asked), peer: small.target(asked) },
    { ...alone, requests: () => listingPair() },
  )
  const byRefs = await wireContest(
    `listing of 1 of ${refs} refs, beside 1 of 1`,
    { svc: large.target(many.name), peer: large.target(asked) },
    { ...alone, requests: () => listingPair('refs/heads/main') },
  )
  await small.stop()
  await large.stop()
  return growthRows([byRepositories, byRefs])
}

type Subject = Pick<Awaited<ReturnType<typeof startSubject>>, 'host'>

async function makeRepositories({ host }: Subject, count: number): Promise<void> {
  const names = Array.from({ length: count - 1 }, (_, index) => `repository-${index}`)
  const make = async () => {
    for (let name = names.pop(); name !== undefined; name = names.pop()) await host.create(name)
  }
  await Promise.all(Array.from({ length: maxConcurrentCreations }, make))
}
