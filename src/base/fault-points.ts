/**
 * Every step after which a crash is tested, as `operation.step`, named after the work that has just been done.
 * SVC_FAULT_POINT names one at which the program ends as if by `kill -9`.
 */
export const faultSteps = [
  'create.made',
  'create.placed',
  'create.recorded',
  'import.reserved',
  'import.copied',
  'import.fetched',
  'import.placed',
  'import.recorded',
  'import.cleared',
  'rename.updated',
  'rename.recorded',
  'delete.marked',
  'delete.recorded',
  'delete.moved',
  'delete.retained',
  'delete.put-away',
  'undelete.moved',
  'undelete.recorded',
  'purge.begun',
  'maintenance.claimed',
  'maintenance.refs-packed',
  'maintenance.graphed',
  'maintenance.mainline-packed',
  'maintenance.repacked',
  'maintenance.expired',
  'maintenance.pruned',
  'maintenance.recorded',
  'backup.fenced',
  'backup.rows',
  'backup.copied',
  'backup.written',
  'backup.named',
  'backup.cleared',
  'restore.marked',
  'restore.copied',
  'restore.rows',
  'restore.unmarked',
  'adopt.files-copied',
  'adopt.moved',
  'secrets.resealed',
  'run.queued',
  'run.claimed',
  'run.begun',
  'run.reported',
  'run.ended',
  'run.taken-back',
  'run-file.received',
  'run-file.placed',
  'run-file.kept',
  'lfs.received',
  'lfs.placed',
  'lfs.deleted',
  'push.moved',
  'push.kept',
  'proposal.kept',
  'push.published',
  'push.settled',
  'small-push.stored',
  'shared-push.stored',
  'shared-push.recorded',
  'shared-push.committed',
  'shared-push.shown',
  'undo.moved',
  'default-branch.recorded',
  'default-branch.moved',
  'delivery.claimed',
  'delivery.composed',
  'delivery.answered',
  'delivery.recorded',
] as const

export type FaultStep = (typeof faultSteps)[number]

/** Called after each step; does not return from the step that SVC_FAULT_POINT names. */
export type FaultPoint = (step: FaultStep) => void

export function createFaultPoint(wanted: FaultStep | undefined): FaultPoint {
  return (step) => {
    if (step === wanted) process.kill(process.pid, 'SIGKILL')
  }
}
