import type { Json } from '#base/json.ts'
import { UsageError } from '../../commands/usage-error.ts'
import { at, dateOf, shortOf, textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { ClientOperation, CommandInput } from '../operation.ts'
import { pathOf } from './option-values.ts'
import { runDownload } from './run-download.ts'
import { runLogs, runWatch } from './run-log.ts'
import { runShell } from './run-shell.ts'
import { runValidate } from './run-validate.ts'

const idNote =
  '\nlatest in place of the id is the newest run.\n\n  svc runs watch            the newest run of the clone that you are in\n  svc runs watch site       that of another repository\n'

export const runOperations: ClientOperation[] = [
  {
    command: 'runs start',
    operations: ['createRun', 'getRunLog'],
    summary: 'run workflows of a branch',
    arguments: ['repository'],
    options: [
      { flags: '--branch <branch>', description: 'branch or full tag name (default: the default)' },
      { flags: '--file <file...>', description: 'workflow files (default: all)' },
      { flags: '--input <name=value...>', description: 'inputs of workflow_dispatch' },
    ],
    request: (input) => ({
      method: 'POST',
      path: runsPath(input),
      body: {
        branch: input.option('branch'),
        files: input.list('file')?.map(pathOf),
        inputs: toInputValues(input.list('input')),
      },
    }),
    show: {
      kind: 'sentence',
      text: (body) =>
        `Queued run ${textAt(body, 'number')}; its id is ${textAt(body, 'id')}, and svc runs watch follows it.`,
    },
  },
  {
    command: 'runs list',
    operations: ['listRuns'],
    summary: 'list the workflow runs, newest first',
    arguments: ['repository'],
    options: [
      { flags: '--branch <branch>', description: 'only those of this branch' },
      {
        flags: '--status <status>',
        description: 'only those with this status',
        choices: ['queued', 'running', 'completed'],
      },
      {
        flags: '--conclusion <conclusion>',
        description: 'only those that have ended like this',
        choices: ['success', 'failure', 'cancelled', 'timed_out'],
      },
      { flags: '--name <name>', description: 'only those with this name' },
      { flags: '--limit <number>', description: 'at most this many (default: 30)' },
    ],
    request: (input) => ({
      method: 'GET',
      path: runsPath(input),
      query: {
        branch: input.option('branch'),
        status: input.option('status'),
        conclusion: input.option('conclusion'),
        name: input.option('name'),
      },
    }),
    show: {
      kind: 'table',
      isPaged: true,
      columns: {
        ID: 'id',
        NUMBER: 'number',
        STATUS: conclusionOf,
        BRANCH: 'branch',
        COMMIT: shortOf('commit'),
        EVENT: 'event',
        ACTOR: 'actor',
        CREATED: dateOf('createdAt'),
        NAME: 'name',
      },
    },
  },
  {
    command: 'runs show',
    operations: ['getRun'],
    summary: 'show a workflow run, and why it failed',
    arguments: ['repository', '[run]'],
    options: [{ flags: '--attempt <number>', description: 'as of this earlier attempt' }],
    notes: idNote,
    request: (input) => ({
      method: 'GET',
      path: runPath(input),
      query: { attempt: input.option('attempt') },
    }),
    show: {
      kind: 'fields',
      columns: {
        Name: 'name',
        Number: 'number',
        Status: conclusionOf,
        Fault: 'fault',
        Branch: 'branch',
        Commit: 'commit',
        Event: 'event',
        Actor: 'actor',
        Attempt: 'attempt',
        Created: dateOf('createdAt'),
        Completed: dateOf('completedAt'),
        Jobs: toJobs,
        'Failed job': 'failure.job',
        'Failed step': 'failure.step',
        'Exit code': 'failure.exitCode',
        Reason: 'failure.reason',
        Isolation: 'isolation',
        Id: 'id',
      },
    },
  },
  {
    command: 'runs annotations',
    operations: ['listAnnotations'],
    summary: 'list the errors, warnings and notices of runs about a commit',
    arguments: ['repository', 'commit'],
    request: (input) => ({
      method: 'GET',
      path: path`/repos/${input.argument('repository')}/annotations`,
      query: { commit: input.argument('commit') },
    }),
    show: {
      kind: 'table',
      columns: {
        LEVEL: 'level',
        FILE: 'file',
        LINE: 'line',
        RUN: 'run.number',
        TITLE: 'title',
        MESSAGE: 'message',
      },
    },
  },
  {
    command: 'runs watch',
    operations: ['getRunLog', 'getRun'],
    summary: 'print the log of a run while it grows; the exit code is 1 if it fails',
    arguments: ['repository', '[run]'],
    notes: idNote,
    run: runWatch,
  },
  {
    command: 'runs logs',
    operations: ['getRunLog'],
    summary: 'print the log of a run as it is now',
    arguments: ['repository', '[run]'],
    options: [
      { flags: '--attempt <number>', description: 'of this attempt (default: the last)' },
      { flags: '--step <number>', description: 'of this step only, from 0' },
    ],
    notes: idNote,
    run: runLogs,
  },
  {
    command: 'runs download',
    operations: ['listArtifacts', 'getArtifact'],
    summary: 'download the artifacts of a run, and unpack them',
    arguments: ['repository', '[run]'],
    options: [
      { flags: '--name <name...>', description: 'only these artifacts (default: all)' },
      { flags: '--dir <folder>', description: 'where to unpack them (default: .)' },
    ],
    notes:
      '\nEach is unpacked into a folder with its name; one given by --name alone, into\nthe folder itself. Files that exist are not overwritten.\n' +
      idNote,
    run: runDownload,
  },
  {
    command: 'runs shell',
    operations: ['openShell', 'readShellOutput', 'writeShellInput', 'closeShell'],
    summary: 'open a shell in the workspace of a failed job',
    arguments: ['repository', '[run]'],
    options: [
      { flags: '--job <name>', description: 'name of the job; needed if several have failed' },
    ],
    notes:
      '\nlatest in place of the id is the newest run. The shell has the variables of the\n' +
      'failed step with the values of secrets, so it is for owners and admins of the\n' +
      'repository, takes secrets:write and workflow:trigger, and is in the audit log.\n' +
      "\n  echo 'cat config.log' | svc runs shell site 17\n",
    run: runShell,
  },
  {
    command: 'runs cancel',
    operations: ['cancelRun'],
    summary: 'cancel a run',
    arguments: ['repository', '[run]'],
    notes: idNote,
    request: (input) => ({ method: 'POST', path: `${runPath(input)}/cancel` }),
    show: { kind: 'sentence', text: (body) => `Run ${textAt(body, 'number')} is cancelled.` },
  },
  {
    command: 'runs rerun',
    operations: ['rerunRun'],
    summary: 'run it again as a new attempt',
    arguments: ['repository', '[run]'],
    options: [{ flags: '--failed', description: 'only the jobs that did not succeed' }],
    notes: idNote,
    request: (input) => ({
      method: 'POST',
      path: `${runPath(input)}/rerun`,
      body: { jobs: input.flag('failed') ? 'failed' : undefined },
    }),
    show: {
      kind: 'sentence',
      text: (body) => `Queued attempt ${textAt(body, 'attempt')} of run ${textAt(body, 'number')}.`,
    },
  },
  {
    command: 'runs validate',
    operations: ['validateWorkflows'],
    summary: 'check the workflow files of a branch; svc run --check checks those of a folder',
    arguments: ['repository'],
    options: [
      { flags: '--branch <branch>', description: 'branch or full tag name (default: the default)' },
      { flags: '--file <file...>', description: 'workflow files (default: all)' },
    ],
    run: runValidate,
  },
]

export const pushOperations: ClientOperation[] = [
  {
    command: 'pushes list',
    operations: ['listPushes'],
    summary: 'list the pushes to a repository, newest first',
    arguments: ['repository'],
    options: [
      { flags: '--ref <ref>', description: 'only those that changed this ref' },
      { flags: '--limit <number>', description: 'at most this many (default: 30)' },
    ],
    request: (input) => ({
      method: 'GET',
      path: path`/repos/${input.argument('repository')}/pushes`,
      query: { ref: input.option('ref') },
    }),
    show: {
      kind: 'table',
      isPaged: true,
      columns: {
        ID: 'id',
        PUSHED: dateOf('pushedAt'),
        ACTOR: 'actor.username',
        VIA: 'via',
        UNDO: (row) => (at(row, 'undoable') === true ? 'yes' : 'no'),
        REFS: toRefs,
      },
    },
  },
  {
    command: 'pushes show',
    operations: ['getPush'],
    summary: 'show a push',
    arguments: ['repository', '[push]'],
    notes: '\nlatest in place of the id is the newest push.\n',
    request: (input) => ({ method: 'GET', path: pushPath(input) }),
    show: {
      kind: 'fields',
      columns: {
        Pushed: dateOf('pushedAt'),
        Actor: 'actor.username',
        Via: 'via',
        Refs: toRefs,
        Undoable: 'undoable',
        'Kept until': dateOf('keptUntil'),
        Undoes: 'undoes',
        Id: 'id',
      },
    },
  },
  {
    command: 'pushes undo',
    operations: ['undoPush'],
    summary: 'set the refs of a push to what they were before it',
    arguments: ['repository', 'push'],
    notes: '\nlatest in place of the id is the newest push.\n',
    request: (input) => ({ method: 'POST', path: `${pushPath(input)}/undo` }),
    show: { kind: 'sentence', text: (body) => `Undid it: ${toRefs(body)}.` },
  },
]

function runsPath({ argument }: Pick<CommandInput, 'argument'>): string {
  return path`/repos/${argument('repository')}/workflows`
}

function runPath(input: CommandInput): string {
  return runsPath(input) + path`/${input.argument('run')}`
}

function pushPath({ argument }: CommandInput): string {
  return path`/repos/${argument('repository')}/pushes/${argument('push')}`
}

function conclusionOf(run: Json): string {
  return textAt(run, 'conclusion') || textAt(run, 'status')
}

function toInputValues(words: string[] | undefined): Record<string, string> | undefined {
  if (!words) return undefined
  return Object.fromEntries(
    words.map((word) => {
      const [, name, value] = /^([^=]+)=(.*)$/s.exec(word) ?? []
      if (name === undefined || value === undefined) {
        throw new UsageError(`--input ${word}: the form is name=value.`)
      }
      return [name, value]
    }),
  )
}

function toJobs(run: Json): string {
  const jobs = at(run, 'jobs')
  return (Array.isArray(jobs) ? jobs : [])
    .map((job) => `${textAt(job, 'name')} ${conclusionOf(job)}`)
    .join(', ')
}

function toRefs(push: Json): string {
  const refs = at(push, 'refs')
  return (Array.isArray(refs) ? refs : [])
    .map((ref) => `${textAt(ref, 'ref')} ${toChange(ref)}`)
    .join(', ')
}

function toChange(ref: Json): string {
  if (at(ref, 'created') === true) return 'created'
  if (at(ref, 'deleted') === true) return 'deleted'
  const range = `${textAt(ref, 'before').slice(0, 10)}..${textAt(ref, 'after').slice(0, 10)}`
  return at(ref, 'forced') === true ? `${range} (forced)` : range
}
