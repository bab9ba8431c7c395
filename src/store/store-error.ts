import { Problem } from '../base/problem.ts'

const retryAfterSeconds = 5

export function repositoryGone(): Problem {
  return new Problem('repository_not_found', 'The repository was deleted.')
}

export function needsPruned(): Problem {
  return new Problem(
    'storage_unavailable',
    'An object that this push needs was removed as unused meanwhile. Push again.',
  )
}

export function storeUnavailable(reason: string, cause?: unknown): Problem {
  return new Problem('storage_unavailable', `The repository cannot be read: ${reason}.`, {
    retryAfterSeconds,
    cause,
  })
}
