import { createHash } from 'node:crypto'

/** Whether the programs that tests start have shared stores: SVC_TEST_STORE. */
export const isShared = process.env.SVC_TEST_LAUNCHER !== undefined

/** The folder of a data directory that has the repositories. */
export const repositoriesFolder = isShared ? 'cache' : 'repositories'

/** For a test's `skip`: it looks into what only a local store has. */
export const onlyLocal = isShared && 'with a shared store this is otherwise'

/** The name of the database that a data directory, or another place, has with a shared store. */
export function databaseOf(place: string): string {
  return `svc_${createHash('md5').update(place).digest('hex')}`
}
