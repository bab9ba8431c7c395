import { setTimeout as sleep } from 'node:timers/promises'
import { shellWord } from '#base/shell-word.ts'
import { fsck } from '../../fsck.ts'
import type { Check } from '../check.ts'
import type { DoctorContext } from '../context.ts'
import { listAllRepositories } from '../doctor-store.ts'
import {
  countOrNo,
  type Finding,
  type Findings,
  fault,
  firstOf,
  ok,
  orOk,
  SkipError,
  warning,
} from '../finding.ts'
import { folderOf, listFolders, placedAt } from './repository-folders.ts'

const pauseMs = 500
// A push or repack during git fsck can cause false reports.
const maxAttemptsWhileServed = 3
const maxLineLength = 300

type Suspect = { id: string; name: string; path: string }

/** Checks the objects of repositories with git-fsck(1). */
export const objectsCheck: Check = {
  id: 'objects',
  title: 'fsck of repositories',
  isLong: true,
  async run(context) {
    if (context.objectsOf === false) return ok('Skipped (--no-fsck).')
    if (context.setting('store')) {
      return ok(
        'Repositories are in the store of SVC_STORE: svc backup verify checks their objects.',
      )
    }
    await context.requireGit()
    const suspects = await chooseRepositories(context)
    if (!Array.isArray(suspects)) return [suspects]
    const findings: Findings[] = []
    for (const [index, suspect] of suspects.entries()) {
      context.onProgress(`fsck ${index + 1} of ${suspects.length}: ${suspect.name}`)
      findings.push(await checkObjects(context, suspect))
    }
    context.onProgress(undefined)
    const [only] = suspects
    const subject =
      typeof context.objectsOf === 'string' && only
        ? only.name
        : countOrNo(suspects.length, 'repository', 'repositories')
    return orOk(firstOf(findings), `${subject}: every object is present and intact.`)
  },
}

async function chooseRepositories(context: DoctorContext): Promise<Suspect[] | Finding> {
  const { objectsOf } = context
  const dataDir = await context.dataDir()
  if (typeof objectsOf === 'string') {
    const repository = (await context.read(listAllRepositories)).find(
      ({ name, isDeleted }) => name === objectsOf && !isDeleted,
    )
    if (!repository)
      return fault(`There is no repository "${objectsOf}".`, 'svc repos list names them all.')
    const path = folderOf(dataDir, repository.id)
    if ((await placedAt(path)) === undefined)
      throw new SkipError(`${repository.name} has no directory.`)
    return [{ ...repository, path }]
  }
  // Without a readable database, all directories are checked.
  const names = await context.read(listAllRepositories).catch(() => [])
  const byId = new Map(names.map(({ id, name }) => [id, name]))
  const { paths } = await listFolders(context)
  return [...paths].map(([id, path]) => ({ id, name: byId.get(id) ?? id, path }))
}

async function checkObjects(context: DoctorContext, { name, path }: Suspect): Promise<Findings> {
  const maxAttempts = context.isServed() ? maxAttemptsWhileServed : 1
  for (let attempt = 1; ; attempt++) {
    const { exitCode, lines } = await fsck(context.git, path, { isIdle: true })
    const errorLines = lines.map((line) => line.slice(0, maxLineLength))
    if (exitCode === 0) return []
    // A missing repository was just deleted, or another check reports it.
    if ((await placedAt(path)) === undefined) return []
    if (attempt >= maxAttempts) return describe(`${name} (${path})`, path, exitCode, errorLines)
    await sleep(pauseMs)
  }
}

function describe(
  subject: string,
  path: string,
  exitCode: number | null,
  errorLines: string[],
): Finding {
  if (exitCode === null) return warning(`${subject}: git fsck was killed.`, 'Run svc doctor again.')
  const [first = 'git gives no reason'] = errorLines
  if (errorLines.length > 0 && errorLines.every((line) => malformed.test(line))) {
    return warning(
      `${subject} has malformed objects that a push would reject: ${first}`,
      'The repository can be served as it is. Its owner can rewrite the history without these objects.',
    )
  }
  return fault(
    `${subject} is damaged: ${first}`,
    `Stop the service, move ${shellWord(path)} to another place, and restore it from a backup.`,
  )
}

// Reports about readable but malformed objects: git-fsck(1), fsck.<msg-id>.
const malformed = /^(error|warning) in (commit|tree|blob|tag) [0-9a-f]+: \w+: /
