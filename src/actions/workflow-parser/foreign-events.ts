import type { FieldMessage } from './fields.ts'

const instead =
  'Use "push", "workflow_dispatch" or "schedule"; "on: push" runs for every branch that is pushed.'

const pullRequests: FieldMessage = ['Pull requests are not supported.', instead]
const unsupported = (what: string): FieldMessage => [`${what} are not supported.`, instead]

/** The events of GitHub that never happen here, each with the reason and the closest alternative. */
export const foreignEvents: Readonly<Record<string, FieldMessage>> = {
  branch_protection_rule: unsupported('Events of protections'),
  check_run: unsupported('Checks'),
  check_suite: unsupported('Checks'),
  create: [
    'Events of created branches and tags are not supported.',
    'Use "on: push" with "branches" or "tags".',
  ],
  delete: unsupported('Events of deleted branches and tags'),
  deployment: unsupported('Deployments'),
  deployment_status: unsupported('Deployments'),
  discussion: unsupported('Discussions'),
  discussion_comment: unsupported('Discussions'),
  fork: unsupported('Forks'),
  gollum: unsupported('Wikis'),
  image_version: unsupported('Runner images'),
  issue_comment: unsupported('Issues'),
  issues: unsupported('Issues'),
  label: unsupported('Labels'),
  merge_group: unsupported('Merge queues'),
  milestone: unsupported('Milestones'),
  page_build: unsupported('Published sites'),
  public: unsupported('Changes of the visibility'),
  pull_request: pullRequests,
  pull_request_review: pullRequests,
  pull_request_review_comment: pullRequests,
  pull_request_target: pullRequests,
  registry_package: unsupported('Packages'),
  release: ['Releases are not supported.', 'Use "on: push" with "tags".'],
  repository_dispatch: [
    'Requests by "repository_dispatch" are not supported.',
    'Use "workflow_dispatch", with inputs.',
  ],
  status: unsupported('Commit statuses'),
  watch: unsupported('Stars'),
  workflow_run: [
    'Workflows do not start each other.',
    'Put the jobs into one workflow, and order them with "needs".',
  ],
}

/** Returns why an event of GitHub never happens here; undefined for other names. */
export function foreignEvent(name: string): FieldMessage | undefined {
  return Object.hasOwn(foreignEvents, name) ? foreignEvents[name] : undefined
}
