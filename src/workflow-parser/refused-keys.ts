import type { FieldRefusal } from './fields.ts'

// Keys and events of GitHub Actions and other services that are not supported, with alternatives.

const events =
  'Use "push", "workflow_dispatch" or "schedule"; "on: push" runs for every branch that is pushed.'

/** Unsupported events of GitHub, with the closest alternative. */
export const refusedEvents: Readonly<Record<string, FieldRefusal>> = {
  pull_request: ['There are no pull requests here.', events],
  pull_request_target: ['There are no pull requests here.', events],
  merge_group: ['There is no merge queue here.', events],
  workflow_call: [
    'Workflows cannot call each other.',
    'Make a composite action of the repository, and write "uses: ./its/folder" in a step.',
  ],
  workflow_run: [
    'Workflows do not start each other.',
    'Put the jobs into one workflow, and order them with "needs".',
  ],
  repository_dispatch: [
    'There is no "repository_dispatch" here.',
    'Use "workflow_dispatch", with inputs.',
  ],
  release: ['There are no releases here.', 'Use "on: push" with "tags".'],
  create: ['There is no "create" event here.', 'Use "on: push" with "branches" or "tags".'],
  delete: ['There is no "delete" event here.', events],
}

export const refusedInWorkflow: Readonly<Record<string, FieldRefusal>> = {
  true: ['"true" is no key of a workflow.', 'Write "on".'],
  'runs-on': ['"runs-on" is a key of a job.', 'Write it as jobs.<id>.runs-on, or leave it out.'],
  strategy: ['"strategy" is a key of a job.', 'Write it as jobs.<id>.strategy.'],
  needs: ['"needs" is a key of a job.', 'Write it as jobs.<id>.needs.'],
  'timeout-minutes': [
    '"timeout-minutes" is a key of a job or a step.',
    'Write it as jobs.<id>.timeout-minutes, or in each step.',
  ],
  stages: ['"stages" is no key of a workflow.', 'Write jobs, and order them with "needs".'],
  image: ['There are no containers here.', 'Use the tools of the runner, which are on PATH.'],
}

export const refusedInJob: Readonly<Record<string, FieldRefusal>> = {
  services: [
    'Jobs have no service containers.',
    'Start what the steps need in a "run" step, in the background; it ends with the step, so use it in the same one.',
  ],
  container: [
    'Jobs do not run in containers.',
    'Leave it out: steps run in a sandbox with the tools of the runner on PATH.',
  ],
  uses: [
    'A job cannot be a reusable workflow.',
    'Write the steps here, or make a composite action of the repository and write "uses: ./its/folder" in a step.',
  ],
  with: ['"with" belongs to a job with "uses", which is not supported.', 'Write it in a step.'],
  secrets: [
    '"secrets" is no key of a job.',
    'Write "secrets: [NAME, …]" at the top of the file; steps get the secrets as variables and as ${{ secrets.NAME }}.',
  ],
  environment: [
    'There are no deployment environments here.',
    'Leave it out; use the secrets of the repository, and "if" for conditions.',
  ],
  concurrency: [
    '"concurrency" is for the whole workflow.',
    'Write it at the top of the file, beside "jobs".',
  ],
  snapshot: ['There are no images of runners here.', 'Leave it out.'],
  on: ['"on" is for the whole workflow.', 'Write it at the top of the file, beside "jobs".'],
  run: ['"run" is a key of a step.', 'Write "steps:" with "- run: a command".'],
  script: ['"script" is no key of a job.', 'Write "steps", each with "run".'],
}

export const refusedInStep: Readonly<Record<string, FieldRefusal>> = {
  needs: ['Steps run one after the other.', 'Leave it out, or write "needs" in a job.'],
  strategy: ['"strategy" is a key of a job.', 'Write it beside "steps".'],
  'runs-on': ['"runs-on" is a key of a job.', 'Write it beside "steps".'],
  secrets: [
    '"secrets" is no key of a step.',
    'Write "env" with NAME: ${{ secrets.NAME }}, or "secrets: [NAME, …]" at the top of the file.',
  ],
  outputs: [
    '"outputs" is no key of a step.',
    'Write lines of name=value to the file $GITHUB_OUTPUT in "run", and give the step an "id".',
  ],
  script: ['"script" is no key of a step.', 'Write "run".'],
  command: ['"command" is no key of a step.', 'Write "run".'],
  image: ['There are no containers here.', 'Use the tools of the runner, which are on PATH.'],
}

export const refusedInAction: Readonly<Record<string, FieldRefusal>> = {
  steps: ['"steps" is a key of "runs".', 'Write "runs:" with "using: composite" and "steps".'],
  jobs: ['An action has no jobs.', 'Write "runs:" with "using: composite" and "steps".'],
  env: ['An action has no "env".', 'Write "env" in its steps.'],
  on: ['An action has no events.', 'Leave it out; workflows use the action in a step.'],
}

export const refusedInRuns: Readonly<Record<string, FieldRefusal>> = {
  main: ['Only composite actions can be used.', 'Write "using: composite" and "steps".'],
  pre: ['Only composite actions can be used.', 'Write "using: composite" and "steps".'],
  post: ['Only composite actions can be used.', 'Write "using: composite" and "steps".'],
  image: ['Only composite actions can be used.', 'Write "using: composite" and "steps".'],
}
