import type { Conclusion, Plan } from '#actions/workflow-engine/plan.ts'

/** What must come out of a project's workflows. */
export type Expectation = {
  /** Its folder; all of its workflow files run. */
  project: string
  /** How the run differs from a push to main. */
  plan?: Partial<Plan>
  conclusion: Conclusion
  jobs: Record<string, Conclusion>
  /** Lines that a job writes, in this order; others may be between them. */
  lines: Record<string, string[]>
}

const push = { event: 'push', ref: 'refs/heads/main' } as const

export const expectations: Expectation[] = [
  {
    project: 'node-project',
    conclusion: 'success',
    jobs: { 'test (18.x)': 'success', 'test (20.x)': 'success', 'test (22.x)': 'success' },
    lines: {
      'test (18.x)': ['the key is fine', 'v18.x', '1 test passed'],
      'test (22.x)': ['v22.x', '1 test passed'],
    },
  },
  {
    project: 'python-package',
    conclusion: 'success',
    jobs: { build: 'success' },
    lines: { build: ['Ran 1 test in', 'OK', 'stats/__init__.py', 'setup.cfg'] },
  },
  {
    project: 'c-project',
    conclusion: 'success',
    jobs: { debug: 'success', release: 'success' },
    lines: {
      debug: ['configured with CFLAGS=-g -O0', 'CC -g -O0 main.o', '2'],
      release: ['configured with CFLAGS=-O2', 'CC -O2 list.o', '2'],
    },
  },
  {
    project: 'matrix',
    conclusion: 'success',
    jobs: {
      'test (ubuntu-22.04, sqlite)': 'success',
      'test (ubuntu-24.04, sqlite)': 'success',
      'test (ubuntu-24.04, postgres)': 'success',
      'test (ubuntu-latest, mysql, true)': 'failure',
      'all-green': 'success',
    },
    lines: {
      'test (ubuntu-22.04, sqlite)': ['testing with sqlite on port none'],
      'test (ubuntu-24.04, postgres)': ['testing with postgres on port 5432'],
      'test (ubuntu-latest, mysql, true)': ['testing with mysql on port none'],
      'all-green': ['matrix: success'],
    },
  },
  {
    project: 'dynamic-matrix',
    conclusion: 'success',
    jobs: {
      plan: 'success',
      'build (api)': 'success',
      'build (cli)': 'success',
      'build (web)': 'success',
      none: 'skipped',
    },
    lines: {
      'build (api)': ['building the api as 0 of 3'],
      'build (web)': ['building the web as 2 of 3'],
    },
  },
  {
    project: 'release',
    plan: { ...push, number: 12 },
    conclusion: 'success',
    jobs: {
      lint: 'success',
      test: 'success',
      build: 'success',
      publish: 'skipped',
      snapshot: 'success',
      notify: 'skipped',
    },
    lines: { snapshot: ['snapshot 0.0.0-dev.12+ccccccc'] },
  },
  {
    project: 'release',
    plan: { ...push, ref: 'refs/tags/v2.0.0-rc.1' },
    conclusion: 'success',
    jobs: {
      lint: 'success',
      test: 'success',
      build: 'success',
      publish: 'success',
      snapshot: 'skipped',
      notify: 'skipped',
    },
    lines: { publish: ['publishing 2.0.0-rc.1 64', 'as a prerelease'] },
  },
  {
    project: 'environment',
    conclusion: 'success',
    jobs: { values: 'success' },
    lines: {
      values: [
        'test hey hey test',
        '1: first line',
        '2: second = line',
        'test',
        'token: ***',
        'main push true Linux',
        'refs/heads/main',
      ],
    },
  },
  {
    project: 'composite-action',
    conclusion: 'success',
    jobs: { check: 'success' },
    lines: { check: ['greet 3 says greet-3', 'version 2 is old', 'greet 2 says again'] },
  },
  {
    project: 'dispatch',
    plan: {
      event: 'workflow_dispatch',
      inputs: { target: 'staging', 'dry-run': true, replicas: 2, note: '' },
    },
    conclusion: 'success',
    jobs: { guard: 'skipped', deploy: 'success' },
    lines: { deploy: ['staging replica 1', 'staging replica 2', 'nothing was changed'] },
  },
  {
    project: 'dispatch',
    plan: {
      event: 'workflow_dispatch',
      inputs: { target: 'production', 'dry-run': false, replicas: 1, note: 'go' },
      payload: { inputs: { target: 'production' } },
      secrets: { DEPLOY_KEY: 'correct-horse' },
    },
    conclusion: 'success',
    jobs: { guard: 'success', deploy: 'success' },
    lines: { deploy: ['production replica 1', 'applied with key ***: go'] },
  },
  {
    project: 'nightly',
    plan: { event: 'schedule', payload: { schedule: '30 3 * * 1-5' } },
    conclusion: 'failure',
    jobs: { stress: 'failure', cleanup: 'success' },
    lines: {
      stress: [
        'try 1 fails',
        '✗ exit code 7; the job continues',
        'stressed 1000 times',
        'stressed 50 times',
        '✗ exit code 3',
        'logs/1000.log',
        'logs/50.log',
      ],
      cleanup: ['after failure by schedule'],
    },
  },
  {
    project: 'monorepo',
    conclusion: 'success',
    jobs: { test: 'success', build: 'success' },
    lines: { test: ['ok 4', 'shared'], build: ['2'] },
  },
]
