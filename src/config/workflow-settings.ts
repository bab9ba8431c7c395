import {
  type ListedHosts,
  listedHostsFault,
  listedHostsForm,
  parseListedHosts,
} from '#base/outbound/listed-hosts.ts'
import type { Setting } from './setting.ts'
import {
  gib,
  kib,
  mib,
  onOrOff,
  parsePaths,
  parseStepEnv,
  size,
  wholeNumber,
} from './setting-values.ts'

/** Settings of workflow runs: runner, sandbox and limits. */
export const workflowSettings = {
  runner: {
    variable: 'SVC_RUNNER',
    description:
      'Whether the service starts its own runner for workflow runs. Other runners are started with `svc runner`.',
    ...onOrOff,
    fallback: 'on',
  } satisfies Setting<boolean>,
  runnerJobs: {
    variable: 'SVC_RUNNER_JOBS',
    description: 'Maximum number of concurrent jobs of the runner. Default: 1 per core.',
    accepts: 'a whole number from 1 to 1000',
    fallback: '',
    parse: wholeNumber(1, 1000),
  } satisfies Setting<number>,
  sandbox: {
    variable: 'SVC_SANDBOX',
    description:
      'With require, workflow steps run only in a bubblewrap sandbox. With auto, where bubblewrap does not work, a service that runs as root runs steps without a sandbox and each run says so; as any other user it rejects runs, because steps could read its keys. With none, steps have no sandbox and, unless the service runs as root, its permissions.',
    accepts: 'auto, require or none',
    fallback: 'auto',
    parse: (text) => (text === 'auto' || text === 'require' || text === 'none' ? text : undefined),
  } satisfies Setting<'auto' | 'require' | 'none'>,
  sandboxNetwork: {
    variable: 'SVC_SANDBOX_NETWORK',
    description:
      "Network of workflow steps: none, or full access to the network of the runner's machine, including its loopback addresses. With none, SVC_STEP_HOSTS can allow hosts.",
    accepts: 'none or full',
    fallback: 'none',
    parse: (text) => (text === 'none' || text === 'full' ? text : undefined),
  } satisfies Setting<'none' | 'full'>,
  stepHosts: {
    variable: 'SVC_STEP_HOSTS',
    description:
      'Hosts that workflow steps may reach, through a proxy of the runner: the most that `network` of a workflow can choose from, and what a workflow without it gets. A name whose address is not public is refused unless that address, or the word for it (private or loopback), is listed, too.',
    accepts: listedHostsForm,
    fallback: 'none',
    unset: 'none',
    parse: parseListedHosts,
    fault: listedHostsFault,
  } satisfies Setting<ListedHosts>,
  sandboxPaths: {
    variable: 'SVC_SANDBOX_PATHS',
    description: 'Additional paths that workflow steps may read, for tools outside /usr and /opt.',
    accepts: 'absolute paths, separated by colons',
    fallback: '',
    parse: parsePaths,
  } satisfies Setting<string[]>,
  tools: {
    variable: 'SVC_TOOLS',
    description:
      "Folders with tools by version, which steps such as actions/setup-node use, laid out as the tool cache of GitHub's runners: <tool>/<version>/<architecture>, with <architecture>.complete beside it. Steps can read them.",
    accepts: 'absolute paths, separated by colons',
    fallback: '',
    parse: parsePaths,
  } satisfies Setting<string[]>,
  stepEnv: {
    variable: 'SVC_STEP_ENV',
    description:
      "Variables that all workflow steps of the runner have, unless `env` of a workflow overrides them: for a package mirror, or a certificate authority of one's own.",
    accepts:
      'a JSON object of strings, such as {"PIP_INDEX_URL":"https://pypi.example.com/simple"}, without names that begin with GITHUB_, RUNNER_, ACTIONS_ or SVC_',
    fallback: '',
    parse: parseStepEnv,
  } satisfies Setting<Record<string, string>>,
  stepMemoryMaxBytes: {
    variable: 'SVC_STEP_MEMORY_MAX',
    description:
      'Maximum memory of all processes of a workflow step together, enforced by a control group where one can be created.',
    fallback: '2GiB',
    ...size(16 * mib, 1024 * gib),
  } satisfies Setting<number>,
  stepProcesses: {
    variable: 'SVC_STEP_PROCESSES',
    description: 'Maximum number of processes and threads of a workflow step.',
    accepts: 'a whole number from 16 to 100000',
    fallback: '512',
    parse: wholeNumber(16, 100_000),
  } satisfies Setting<number>,
  failedWorkspaceSeconds: {
    variable: 'SVC_FAILED_WORKSPACE_SECONDS',
    description:
      'Seconds after a failed run for which its runner keeps the workspaces of failed jobs, for `svc runs shell`; 0 for none. A runner keeps at most 3, and removes them when it ends or the disk has little space.',
    accepts: 'seconds from 0 to 86400',
    fallback: '900',
    parse: wholeNumber(0, 86_400),
  } satisfies Setting<number>,
  stepFileMaxBytes: {
    variable: 'SVC_STEP_FILE_MAX',
    description: 'Maximum size of a file that a workflow step writes.',
    fallback: '4GiB',
    ...size(mib, 1024 * gib),
  } satisfies Setting<number>,
  stepOutputMaxBytes: {
    variable: 'SVC_STEP_OUTPUT_MAX',
    description:
      'Maximum stored output of a workflow step; of longer output, the start and the end are stored.',
    fallback: '1MiB',
    ...size(16 * kib, 64 * mib),
  } satisfies Setting<number>,
  stepSeconds: {
    variable: 'SVC_STEP_SECONDS',
    description: 'Maximum duration of a workflow step; `timeout-minutes` can only shorten it.',
    accepts: 'seconds from 1 to 604800',
    fallback: '1800',
    parse: wholeNumber(1, 604_800),
  } satisfies Setting<number>,
  runSeconds: {
    variable: 'SVC_RUN_SECONDS',
    description: 'Maximum duration of a workflow run.',
    accepts: 'seconds from 1 to 604800',
    fallback: '3600',
    parse: wholeNumber(1, 604_800),
  } satisfies Setting<number>,
  runsKeptDays: {
    variable: 'SVC_RUNS_KEPT_DAYS',
    description: 'Days for which completed runs and their output are kept.',
    accepts: 'days from 1 to 3650',
    fallback: '90',
    parse: wholeNumber(1, 3650),
  } satisfies Setting<number>,
}
