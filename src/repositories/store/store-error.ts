import { Problem } from '#base/problem.ts'
import { S3Error } from '../s3/s3-error.ts'

const retryAfterSeconds = 5

export function goneFromStore(): Problem {
  return new Problem('repository_not_found', 'The repository was deleted.')
}

export function needsPruned(): Problem {
  return new Problem(
    'storage_unavailable',
    'An object that this push needs was removed as unused meanwhile. Push again.',
  )
}

export function beingMaintained(): Problem {
  return new Problem(
    'storage_unavailable',
    'Objects of the repository were removed as unused meanwhile, and this server is still maintaining it. Push again.',
    { retryAfterSeconds },
  )
}

export function uploadTakenBack(): Problem {
  return new Problem(
    'storage_unavailable',
    'Nothing was changed: another server took back the upload of a pack, which seemed to be left. Try again.',
  )
}

/** Whether an error of `storeUnavailable` is a file that is lost or damaged, so that trying again is of no use. */
export function isDamage(error: unknown): boolean {
  const cause = error instanceof Problem ? error.cause : undefined
  return cause instanceof S3Error && ['absent', 'corrupt'].includes(cause.code)
}

export function storeUnavailable(reason: string, cause?: unknown): Problem {
  return new Problem('storage_unavailable', `The repository cannot be read: ${reason}.`, {
    retryAfterSeconds,
    cause,
  })
}
