import type { RunningJob } from './running-job.ts'

/** What programs say when they cannot reach a host. */
const unreached =
  /could not resolve|failed to lookup address|name resolution|name or service not known|no address associated|network is unreachable|no such host|getaddrinfo|EAI_AGAIN|ENOTFOUND|ENETUNREACH/i

/** Why a step that has failed reached no host, by the end of its output; undefined if that is not why. */
export function whyUnreached(
  { run, network, job, workflow }: Pick<RunningJob, 'run' | 'network' | 'job' | 'workflow'>,
  tail: Buffer,
): string | undefined {
  const isWithout = network.hosts === 'none' || run.sandbox.isolation.network === 'none'
  if (!isWithout || !unreached.test(tail.toString('latin1'))) return undefined
  const wanted = job.network ?? workflow.network
  if (wanted?.length === 0)
    return 'The workflow gives the step no network: list the host in its key "network".'
  const key = wanted ? '' : ' A workflow narrows these with its key "network".'
  return `The step has no network: the administrator of the runner allows hosts with SVC_STEP_HOSTS.${key}`
}
