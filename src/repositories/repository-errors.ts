import { Problem } from '#base/problem.ts'

const foreignKeyViolations = new Set<unknown>(['23503', 787])

/** Maps a foreign key violation to a Problem: the referenced row was deleted after it was found. */
export function asGone(toProblem: () => Problem): (error: unknown) => never {
  return (error) => {
    const { code, errcode } = error as { code?: unknown; errcode?: unknown }
    if (!foreignKeyViolations.has(code) && !foreignKeyViolations.has(errcode)) throw error
    throw toProblem()
  }
}

/** The same Problem as for a repository that never existed. */
export function repositoryGone({ name }: { name: string }): Problem {
  return new Problem(
    'repository_not_found',
    `There is no repository "${name}", or it is not yours to see.`,
  )
}

/** The Problem of a former name, for those who see the repository. */
export function repositoryRenamed(name: string, renamedTo: string): Problem {
  const detail = `"${name}" was renamed to "${renamedTo}".`
  return new Problem('repository_not_found', detail, { members: { renamedTo } })
}

/** The Problem of a name that is taken. */
export function nameTaken(name: string): Problem {
  return new Problem(
    'repository_name_taken',
    `"${name}" is taken, in this or another case; choose another name.`,
  )
}

/** The Problem of a repository that was opened before. */
export function repositoryDeleted(): Problem {
  return new Problem(
    'repository_not_found',
    'The repository was deleted, or it is not yours to see.',
  )
}

// Two concurrent changes may both find the name free; the unique index rejects one of them.
const uniqueViolations = new Set<unknown>(['23505', 2067])

/** Maps the violation of the unique index of names to the Problem of a name that is taken. */
export function asTaken(name: string, taken = nameTaken): (error: unknown) => never {
  return (error) => {
    const fault = error as { code?: unknown; errcode?: unknown }
    if (uniqueViolations.has(fault.code) || uniqueViolations.has(fault.errcode)) throw taken(name)
    throw error
  }
}
