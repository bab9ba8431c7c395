import type { AccessLevel, Job, JobPermissions, Workflow } from './workflow.ts'

const defaultPermissions: JobPermissions = { contents: 'read', actions: 'none', idToken: false }

/** The permissions of a job: those that it requests; in a called workflow, at most those of the calling job. */
export function permissionsOf(
  { permissions: ofFile }: Pick<Workflow, 'permissions'>,
  { permissions: asked = ofFile }: Pick<Job, 'permissions'>,
  ofCaller: JobPermissions | undefined,
): JobPermissions {
  if (!ofCaller || !asked) return asked ?? ofCaller ?? defaultPermissions
  return {
    contents: lower(asked.contents, ofCaller.contents),
    actions: lower(asked.actions, ofCaller.actions),
    idToken: asked.idToken && ofCaller.idToken,
  }
}

export function isSamePermissions(one: JobPermissions, other: JobPermissions): boolean {
  return (
    one.contents === other.contents &&
    one.actions === other.actions &&
    one.idToken === other.idToken
  )
}

const levels: readonly AccessLevel[] = ['none', 'read', 'write']

function lower(one: AccessLevel, other: AccessLevel): AccessLevel {
  return levels.indexOf(one) < levels.indexOf(other) ? one : other
}
