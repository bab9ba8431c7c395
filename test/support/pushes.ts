import { until } from './condition.ts'
import type { InProcess } from './in-process.ts'
import type { Client } from './service.ts'

/** A push as the journal lists it. */
export type ListedPush = {
  id: string
  repoName: string
  actor: { id: string; username: string }
  via: string
  pushedAt: number
  finishedAt: number
  refs: {
    ref: string
    before: string
    after: string
    forced: boolean
    created: boolean
    deleted: boolean
  }[]
  undoable: boolean
  keptUntil: number | null
  undoes: string | null
}

/** The journal of a repository once no push is running, newest first. */
export async function finishedPushes(
  { db }: Pick<InProcess, 'db'>,
  client: Client,
  name: string,
): Promise<ListedPush[]> {
  await until('every push is finished', async () => {
    const query = db.selectFrom('pushes').select('id').where('finishedAt', 'is', null)
    return (await query.execute()).length === 0
  })
  return (await client.get(`/repos/${name}/pushes`)).body
}
