import { objectFormat } from './object-format.ts'
/** Settings of every server that a test starts. None of them depends on the machine, as some defaults do on its cores. */
export const testSettings = {
  SVC_PORT: '0',
  SVC_SSH_PORT: 'off',
  SVC_FREE_SPACE_MIN: '0',
  SVC_DEFAULT_OBJECT_FORMAT: objectFormat,
  SVC_MAINTENANCE_PUSHES: 'off',
  SVC_REQUESTS_PER_SECOND: '100000',
  SVC_REQUEST_BURST: '100000',
  SVC_RUNNER: 'off',
  SVC_FAILED_WORKSPACE_SECONDS: '0',
  SVC_RUNNER_JOBS: '4',
  SVC_FETCHES_AT_ONCE: '16',
  SVC_BROWSES_AT_ONCE: '8',
  SVC_ARCHIVES_AT_ONCE: '4',
}

/** For tests whose clients use SSH: it is a third of what a start costs. */
export const withSsh = { SVC_SSH_PORT: '0' }
