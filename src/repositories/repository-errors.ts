import { Problem } from '../base/problem.ts'

const foreignKeyViolations = new Set<unknown>(['23503', 787])

/** For what is written of something that may be deleted after it was found: its row is then missing. */
export function asGone(toProblem: () => Problem): (error: unknown) => never {
  return (error) => {
    const { code, errcode } = error as { code?: unknown; errcode?: unknown }
    if (!foreignKeyViolations.has(code) && !foreignKeyViolations.has(errcode)) throw error
    throw toProblem()
  }
}

/** The same as for a repository that never was. */
export function repositoryGone({ name }: { name: string }): Problem {
  return new Problem(
    'repository_not_found',
    `There is no repository "${name}", or it is not yours to see.`,
  )
}
