import type { FieldMessage } from '../source/fields.ts'

// Keys of GitHub Actions and other services that are not supported, with alternatives.

export const unsupportedInWorkflow: Readonly<Record<string, FieldMessage>> = {
  true: ['Unexpected key "true" in a workflow.', 'Write "on".'],
  'runs-on': ['"runs-on" is a key of a job.', 'Write it as jobs.<id>.runs-on, or omit it.'],
  strategy: ['"strategy" is a key of a job.', 'Write it as jobs.<id>.strategy.'],
  needs: ['"needs" is a key of a job.', 'Write it as jobs.<id>.needs.'],
  'timeout-minutes': [
    '"timeout-minutes" is a key of a job or a step.',
    'Write it as jobs.<id>.timeout-minutes, or in each step.',
  ],
  stages: ['Unexpected key "stages" in a workflow.', 'Write jobs, and order them with "needs".'],
  image: ['Containers are not supported.', 'Use the tools of the runner, which are on PATH.'],
}

/** Keys of a job that ask for something no runner has. */
export const unsupportedOfJob: Readonly<
  Record<'container' | 'services' | 'snapshot', FieldMessage>
> = {
  services: [
    'Jobs have no service containers.',
    'Start services in the background of the "run" step that uses them; they end with the step.',
  ],
  container: [
    'Jobs do not run in containers.',
    'Remove it: steps run in a sandbox with the tools of the runner on PATH.',
  ],
  snapshot: ['Runner images are not supported.', 'Remove it.'],
}

export const unsupportedInJob: Readonly<Record<string, FieldMessage>> = {
  on: ['"on" is for the whole workflow.', 'Write it at the top level of the file, beside "jobs".'],
  run: ['"run" is a key of a step.', 'Write "steps:" with "- run: a command".'],
  script: ['Unexpected key "script" in a job.', 'Write "steps", each with "run".'],
}

export const unsupportedInStep: Readonly<Record<string, FieldMessage>> = {
  needs: ['"needs" is a key of a job; steps run in order.', 'Remove it.'],
  strategy: ['"strategy" is a key of a job.', 'Write it beside "steps".'],
  'runs-on': ['"runs-on" is a key of a job.', 'Write it beside "steps".'],
  secrets: [
    'Unexpected key "secrets" in a step.',
    'Write "env" with NAME: ${{ secrets.NAME }}, or "secrets: [NAME, …]" at the top level of the file.',
  ],
  outputs: [
    'Unexpected key "outputs" in a step.',
    'Write name=value lines to the file $GITHUB_OUTPUT in "run", and give the step an "id".',
  ],
  script: ['Unexpected key "script" in a step.', 'Write "run".'],
  command: ['Unexpected key "command" in a step.', 'Write "run".'],
  image: ['Containers are not supported.', 'Use the tools of the runner, which are on PATH.'],
}

export const unsupportedInAction: Readonly<Record<string, FieldMessage>> = {
  steps: ['"steps" is a key of "runs".', 'Write "runs:" with "using: composite" and "steps".'],
  jobs: ['An action has no jobs.', 'Write "runs:" with "using: composite" and "steps".'],
  env: ['An action has no "env".', 'Write "env" in its steps.'],
  on: ['An action has no events.', 'Remove it; workflows use the action in a step.'],
}
