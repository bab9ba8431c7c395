import { type FaultList, quoted } from './fault-list.ts'
import type { Field } from './fields.ts'
import { suggest } from './suggest.ts'
import type { Job } from './workflow.ts'

/** A job and the positions of its needs. */
export type JobNeeds = { job: Job; needs: { text: string; field: Field }[] }

/** Reports needs that name no job, the job itself, or a job that depends on it. */
export function checkNeeds(jobs: JobNeeds[], ids: string[], faults: FaultList): void {
  for (const { job, needs } of jobs) {
    for (const { text, field } of needs) {
      const { position } = field.node
      if (text === job.id) {
        faults.add(position, `The job ${quoted(text)} needs itself.`, 'Remove it.')
      } else if (!ids.includes(text)) {
        const similar = suggest(text, ids)
        const instead = similar ? `Write ${quoted(similar)}.` : 'Name a job of this file.'
        faults.add(position, `There is no job ${quoted(text)}.`, instead)
      }
    }
  }
  const stuck = jobsInCycles(jobs)
  for (const { job, needs } of jobs) {
    if (!stuck.has(job.id)) continue
    const need = needs.find(({ text }) => text !== job.id && stuck.has(text))
    if (!need) continue
    const message = `The jobs ${quoted(job.id)} and ${quoted(need.text)} depend on each other.`
    faults.add(need.field.node.position, message, 'Remove one of these "needs" to break the cycle.')
    return
  }
}

/** Finds jobs that can never start because they depend on themselves. */
function jobsInCycles(jobs: JobNeeds[]): Set<string> {
  const left = new Map(jobs.map(({ job }) => [job.id, job.needs.filter((id) => id !== job.id)]))
  // Removes jobs without needs until none is left, then jobs that no other needs, so only cycles remain.
  const remove = (isFree: (id: string, needs: string[]) => boolean) => {
    for (;;) {
      const free = [...left].filter(([id, needs]) => isFree(id, needs)).map(([id]) => id)
      if (free.length === 0) return
      for (const id of free) left.delete(id)
    }
  }
  remove((_, needs) => !needs.some((id) => left.has(id)))
  remove((id) => ![...left.values()].some((needs) => needs.includes(id)))
  return new Set(left.keys())
}
