import { toSize } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { UsageError } from '../terminal/command-errors.ts'
import { at, dateOf, listAt, shortOf, textAt } from '../terminal/display.ts'
import { downloadArchive, runDownload } from './archive-downloads.ts'
import type { ClientOperation, CommandInput } from './operation.ts'
import { runLogs, runValidate, runWatch } from './run-output.ts'
import { runShell } from './run-shell.ts'

const idNote =
  '\nlatest in place of the id is the newest run.\n\n  svc runs watch            the newest run of the clone that you are in\n  svc runs watch site       that of another repository\n'
const runNote = '\nThe run is an id, a number, or latest.\n'
const sizeOf = (row: Json) => toSize(Number(at(row, 'size')))

/** Runs, their artifacts and caches, and the push journal. */
export const runOperations: ClientOperation[] = [
  {
    command: 'runs start',
    operations: ['createRun', 'getRunLog'],
    summary: 'run workflows of a branch',
    arguments: ['repository'],
    options: {
      '--branch <branch>': 'branch or full tag name (default: the default)',
      '--file <file...>': 'workflow files (default: all)',
      '--input <name=value...>': 'inputs of workflow_dispatch',
    },
    sentence: (body) =>
      `Queued run ${textAt(body, 'number')}; its id is ${textAt(body, 'id')}, and svc runs watch follows it.`,
  },
  {
    command: 'runs list',
    operations: ['listRuns'],
    summary: 'list the workflow runs, newest first',
    arguments: ['repository'],
    options: {
      '--branch <branch>': 'only those of this branch',
      '--status <status>': 'only those with this status',
      '--conclusion <conclusion>': 'only those that have ended like this',
      '--name <name>': 'only those with this name',
      '--limit <number>': 'at most this many (default: 30)',
    },
    table: {
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
  {
    command: 'runs show',
    operations: ['getRun'],
    summary: 'show a workflow run, and why it failed',
    arguments: ['repository', '[run]'],
    options: { '--attempt <number>': 'as of this earlier attempt' },
    notes: idNote,
    fields: {
      Name: 'name',
      Number: 'number',
      Status: conclusionOf,
      Fault: 'fault',
      Branch: 'branch',
      Commit: 'commit',
      Event: 'event',
      Actor: 'actor',
      Restricted: 'restricted',
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
  {
    command: 'runs annotations',
    operations: ['listAnnotations'],
    summary: 'list the errors, warnings and notices of runs about a commit',
    arguments: ['repository', 'commit'],
    table: {
      LEVEL: 'level',
      FILE: 'file',
      LINE: 'line',
      RUN: 'run.number',
      TITLE: 'title',
      MESSAGE: 'message',
    },
  },
  {
    command: 'statuses list',
    operations: ['listStatuses'],
    summary: 'list what checks from outside and runs say of a commit',
    arguments: ['repository', 'commit'],
    table: {
      STATE: 'state',
      CONTEXT: 'context',
      BY: 'username',
      RUN: 'run.number',
      REPORTED: dateOf('createdAt'),
      DESCRIPTION: 'description',
    },
  },
  {
    command: 'statuses report',
    operations: ['reportStatus'],
    summary: 'report that a check from outside has begun or ended',
    arguments: ['repository', 'commit', 'context', 'state'],
    options: {
      '--description <text>': 'the result in a line',
      '--target-url <url>': 'where the details are',
    },
    sentence: (status) => `Reported ${textAt(status, 'state')} of ${textAt(status, 'context')}.`,
  },
  {
    command: 'runs watch',
    operations: ['getRunLog', 'getRun'],
    summary: 'print the log of a run while it grows; the exit code is 1 if it fails',
    arguments: ['repository', '[run]'],
    notes: idNote,
    runOnServer: runWatch,
  },
  {
    command: 'runs logs',
    operations: ['getRunLog'],
    summary: 'print the log of a run as it is now',
    arguments: ['repository', '[run]'],
    options: {
      '--attempt <number>': 'of this attempt (default: the last)',
      '--step <number>': 'of this step only, from 0',
    },
    notes: idNote,
    runOnServer: runLogs,
  },
  {
    command: 'runs download',
    operations: ['listArtifacts', 'getArtifact'],
    summary: 'download the artifacts of a run, and unpack them',
    arguments: ['repository', '[run]'],
    options: {
      '--name <name...>': 'only these artifacts (default: all)',
      '--dir <folder>': 'where to unpack them (default: .)',
    },
    notes:
      '\nEach is unpacked into a folder with its name; one given by --name alone, into\nthe folder itself. Files that exist are not overwritten.\n' +
      idNote,
    runOnServer: runDownload,
  },
  {
    command: 'runs shell',
    operations: ['openShell', 'readShellOutput', 'writeShellInput', 'closeShell'],
    summary: 'open a shell in the workspace of a failed job',
    arguments: ['repository', '[run]'],
    options: { '--job <name>': 'name of the job; needed if several have failed' },
    notes:
      '\nlatest in place of the id is the newest run. The shell has the variables of the\n' +
      'failed step with the values of secrets, so it is for owners and admins of the\n' +
      'repository, takes secrets:write and workflow:trigger, and is in the audit log.\n' +
      "\n  echo 'cat config.log' | svc runs shell site 17\n",
    runOnServer: runShell,
  },
  {
    command: 'runs cancel',
    operations: ['cancelRun'],
    summary: 'cancel a run',
    arguments: ['repository', '[run]'],
    notes: idNote,
    sentence: (body) => `Run ${textAt(body, 'number')} is cancelled.`,
  },
  {
    command: 'runs approve',
    operations: ['approveRun'],
    summary: 'let a run be executed that waits for an approval',
    arguments: ['repository', '[run]'],
    notes:
      '\nRuns of a user who may not push wait until a change of the user has landed. They\nhave no secrets. Approving takes workflow:trigger and the role write.\n' +
      idNote,
    sentence: (body) => `Run ${textAt(body, 'number')} is approved.`,
  },
  {
    command: 'runs rerun',
    operations: ['rerunRun'],
    summary: 'run it again as a new attempt',
    arguments: ['repository', '[run]'],
    options: { '--failed': 'only the jobs that did not succeed' },
    notes: idNote,
    fill: ({ flag }) => ({ jobs: flag('failed') ? 'failed' : undefined }),
    sentence: (body) =>
      `Queued attempt ${textAt(body, 'attempt')} of run ${textAt(body, 'number')}.`,
  },
  {
    command: 'runs validate',
    operations: ['validateWorkflows'],
    summary: 'check the workflow files of a branch; svc run --check checks those of a folder',
    arguments: ['repository'],
    options: {
      '--branch <branch>': 'branch or full tag name (default: the default)',
      '--file <file...>': 'workflow files (default: all)',
    },
    run: runValidate,
  },
  {
    command: 'artifacts list',
    operations: ['listArtifacts'],
    summary: 'list the artifacts of a run',
    arguments: ['repository', '[run]'],
    notes: '\nWithout a run, those of the newest one.\n',
    table: {
      ID: 'id',
      NAME: 'name',
      SIZE: sizeOf,
      ATTEMPT: 'attempt',
      CREATED: dateOf('createdAt'),
      EXPIRES: dateOf('expiresAt'),
    },
  },
  {
    command: 'artifacts get',
    operations: ['getArtifact'],
    summary: 'download an artifact, by its name or id, as an archive',
    arguments: ['repository', 'run', 'artifact'],
    options: {
      '--format <format>': 'format of the archive (default: by the name of the file, else tar.gz)',
      '--output <file>': 'file to write (default: standard output)',
    },
    notes: `${runNote}\n  svc artifacts get latest build | tar -xz\n\nsvc runs download unpacks artifacts.\n`,
    runOnServer: downloadArchive,
  },
  {
    command: 'artifacts delete',
    operations: ['deleteArtifact'],
    summary: 'delete an artifact, by its name or id',
    arguments: ['repository', 'run', 'artifact'],
    notes: runNote,
    sentence: (_, { argument }) => `Deleted the artifact ${argument('artifact')}.`,
    json: ({ argument }) => ({ deleted: argument('artifact') }),
  },
  {
    command: 'artifacts usage',
    operations: ['getRunFileUsage'],
    summary: 'show the size of all artifacts and caches of a repository, and the limits',
    arguments: ['repository'],
    fields: { Artifacts: usageOf('artifacts'), Caches: usageOf('caches') },
  },
  {
    command: 'caches list',
    operations: ['listCaches'],
    summary: 'list the caches of the workflow runs of a repository',
    arguments: ['repository'],
    table: {
      ID: 'id',
      KEY: 'key',
      SIZE: sizeOf,
      REF: 'ref',
      PROTECTED: (row) => (at(row, 'protected') === true ? 'yes' : 'no'),
      CREATED: dateOf('createdAt'),
      USED: dateOf('lastUsedAt'),
    },
  },
  {
    command: 'caches delete',
    operations: ['deleteCaches', 'deleteCache'],
    choose: toDeletion,
    summary: 'delete caches of workflow runs',
    arguments: ['repository', '[cache]'],
    options: {
      '--key <key>': 'those with this key',
      '--ref <ref>': 'those of this branch or tag, by its full name',
      '--all': 'all of the repository',
    },
    notes: '\nThe cache is an id.\n',
    sentence: (body) => `Deleted caches: ${textAt(body, 'deleted') || '1'}.`,
    json: () => ({ deleted: 1 }),
  },
  {
    command: 'pushes list',
    operations: ['listPushes'],
    summary: 'list the pushes to a repository, newest first',
    arguments: ['repository'],
    options: {
      '--ref <ref>': 'only those that changed this ref',
      '--limit <number>': 'at most this many (default: 30)',
    },
    table: {
      ID: 'id',
      PUSHED: dateOf('pushedAt'),
      ACTOR: 'actor.username',
      VIA: 'via',
      UNDO: (row) => (at(row, 'undoable') === true ? 'yes' : 'no'),
      REFS: toRefs,
    },
  },
  {
    command: 'pushes show',
    operations: ['getPush'],
    summary: 'show a push',
    arguments: ['repository', '[push]'],
    notes: '\nlatest in place of the id is the newest push.\n',
    fields: {
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
  {
    command: 'pushes undo',
    operations: ['undoPush'],
    summary: 'set the refs of a push to what they were before it',
    arguments: ['repository', 'push'],
    notes: '\nlatest in place of the id is the newest push.\n',
    sentence: (body) => `Undid it: ${toRefs(body)}.`,
  },
]

/** Deletes the cache of an argument, or all with a key and a ref. */
function toDeletion({ argument, option, flag }: CommandInput): string {
  const isOne = argument('cache') !== ''
  const isNamed = option('key') !== undefined || option('ref') !== undefined
  if ([isOne, isNamed, flag('all') === true].filter(Boolean).length !== 1)
    throw new UsageError('Give the id of a cache, or --key and --ref, or --all.')
  return isOne ? 'deleteCache' : 'deleteCaches'
}

function usageOf(kind: string): (body: Json) => string {
  const bytesAt = (body: Json, name: string) => toSize(Number(at(body, `${kind}.${name}`)))
  return (body) =>
    `${textAt(body, `${kind}.count`)}, ${bytesAt(body, 'sizeBytes')} of ${bytesAt(body, 'maxBytes')}`
}

function conclusionOf(run: Json): string {
  if (at(run, 'needsApproval') === true) return 'needs approval'
  return textAt(run, 'conclusion') || textAt(run, 'status')
}

function toJobs(run: Json): string {
  return listAt(run, 'jobs')
    .map((job) => `${textAt(job, 'name')} ${conclusionOf(job)}`)
    .join(', ')
}

function toRefs(push: Json): string {
  return listAt(push, 'refs')
    .map((ref) => `${textAt(ref, 'ref')} ${toChange(ref)}`)
    .join(', ')
}

function toChange(ref: Json): string {
  if (at(ref, 'created') === true) return 'created'
  if (at(ref, 'deleted') === true) return 'deleted'
  const range = `${textAt(ref, 'before').slice(0, 10)}..${textAt(ref, 'after').slice(0, 10)}`
  return at(ref, 'forced') === true ? `${range} (forced)` : range
}
