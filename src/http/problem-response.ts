import { type Problem, type ProblemKind, problems } from '#base/problem.ts'

/** The HTTP status of each kind of problem. */
export const statuses: Record<ProblemKind, number> = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  'not-found': 404,
  'method-not-allowed': 405,
  'timed-out': 408,
  conflict: 409,
  gone: 410,
  'too-large': 413,
  'media-type': 415,
  impossible: 422,
  'too-many': 429,
  'headers-too-large': 431,
  internal: 500,
  'not-implemented': 501,
  unavailable: 503,
  'storage-full': 507,
}

export const problemContentType = 'application/problem+json'

export function statusOf({ code }: Pick<Problem, 'code'>): number {
  return statuses[problems[code].kind]
}

/** Converts a problem to an RFC 9457 document; its `type` links to the documentation page. */
export function toProblemDocument(problem: Problem) {
  const { code, message: detail, errors, members } = problem
  const { title } = problems[code]
  const type = `/docs#${code}`
  const status = statusOf(problem)
  return { type, title, status, detail, code, ...(errors && { errors }), ...members }
}

/** Converts a problem to the format of Git LFS: https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md, "Response Errors". */
export const lfsContentType = 'application/vnd.git-lfs+json'

export function toLfsError(problem: Problem) {
  return { message: problem.message, ...toProblemDocument(problem) }
}

/** The headers of a problem response. */
export function problemHeaders({ retryAfterSeconds, allow }: Problem): Record<string, string> {
  return {
    ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
    ...(allow && { allow: allow.join(', ') }),
  }
}
