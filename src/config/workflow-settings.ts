import type { Setting } from './setting.ts'
import { gib, kib, mib, parsePaths, size, wholeNumber } from './setting-values.ts'

/** The settings of workflows: what runs them, and what they may take. */
export const workflowSettings = {
  runner: {
    variable: 'SVC_RUNNER',
    description:
      'Whether the service executes workflow runs itself, by a runner of its own beside it; others are started with `svc runner`.',
    accepts: 'on or off',
    fallback: 'on',
    parse: (text) => (text === 'on' ? true : text === 'off' ? false : undefined),
  } satisfies Setting<boolean>,
  runnerJobs: {
    variable: 'SVC_RUNNER_JOBS',
    description: 'Jobs that the runner works on at once. Default: 1 for each core.',
    accepts: 'a whole number from 1 to 1000',
    fallback: '',
    parse: wholeNumber(1, 1000),
  } satisfies Setting<number>,
  sandbox: {
    variable: 'SVC_SANDBOX',
    description:
      'With require, steps of workflows run in a bubblewrap sandbox or not at all. With auto, a service that runs as root does without one where bubblewrap does not work, which each run then says; as any other user it refuses runs, as steps could read its keys. With none, steps have no sandbox, and outside of root the rights of the service.',
    accepts: 'auto, require or none',
    fallback: 'auto',
    parse: (text) => (text === 'auto' || text === 'require' || text === 'none' ? text : undefined),
  } satisfies Setting<'auto' | 'require' | 'none'>,
  sandboxNetwork: {
    variable: 'SVC_SANDBOX_NETWORK',
    description:
      "Network of workflow steps: none, or full, which is all of the runner's machine, its loopback addresses, too.",
    accepts: 'none or full',
    fallback: 'none',
    parse: (text) => (text === 'none' || text === 'full' ? text : undefined),
  } satisfies Setting<'none' | 'full'>,
  sandboxPaths: {
    variable: 'SVC_SANDBOX_PATHS',
    description:
      'Further paths that workflow steps may read, for tools that are not in /usr or /opt.',
    accepts: 'absolute paths, separated by colons',
    fallback: '',
    parse: parsePaths,
  } satisfies Setting<string[]>,
  stepMemoryMaxBytes: {
    variable: 'SVC_STEP_MEMORY_MAX',
    description:
      'Most memory that the processes of a workflow step may take together, held by a control group of the kernel where one can be made.',
    fallback: '2GiB',
    ...size(16 * mib, 1024 * gib),
  } satisfies Setting<number>,
  stepProcesses: {
    variable: 'SVC_STEP_PROCESSES',
    description: 'Processes and threads that a workflow step may have at once.',
    accepts: 'a whole number from 16 to 100000',
    fallback: '512',
    parse: wholeNumber(16, 100_000),
  } satisfies Setting<number>,
  stepFileMaxBytes: {
    variable: 'SVC_STEP_FILE_MAX',
    description: 'Largest file that a workflow step may write.',
    fallback: '4GiB',
    ...size(mib, 1024 * gib),
  } satisfies Setting<number>,
  stepOutputMaxBytes: {
    variable: 'SVC_STEP_OUTPUT_MAX',
    description: "Most of a workflow step's output that is kept: its start and its end.",
    fallback: '1MiB',
    ...size(16 * kib, 64 * mib),
  } satisfies Setting<number>,
  stepSeconds: {
    variable: 'SVC_STEP_SECONDS',
    description: 'Longest time of a workflow step; `timeout-minutes` can only shorten it.',
    accepts: 'seconds from 1 to 604800',
    fallback: '1800',
    parse: wholeNumber(1, 604_800),
  } satisfies Setting<number>,
  runSeconds: {
    variable: 'SVC_RUN_SECONDS',
    description: 'Longest time of a workflow run.',
    accepts: 'seconds from 1 to 604800',
    fallback: '3600',
    parse: wholeNumber(1, 604_800),
  } satisfies Setting<number>,
  runsKeptDays: {
    variable: 'SVC_RUNS_KEPT_DAYS',
    description: 'Days after which completed runs are forgotten, with their output.',
    accepts: 'days from 1 to 3650',
    fallback: '90',
    parse: wholeNumber(1, 3650),
  } satisfies Setting<number>,
}
