import { toSize } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { UsageError } from '../../commands/usage-error.ts'
import { at, dateOf, textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { Cell, ClientOperation, CommandInput } from '../operation.ts'
import { downloadArtifact } from './download-archive.ts'

const size = (row: Parameters<typeof at>[0]) => toSize(Number(at(row, 'size')))
const runNote = '\nThe run is an id, a number, or latest.\n'

export const runFileOperations: ClientOperation[] = [
  {
    command: 'artifacts list',
    operations: ['listArtifacts'],
    summary: 'list the artifacts of a run',
    arguments: ['repository', '[run]'],
    notes: '\nWithout a run, those of the newest one.\n',
    request: (input) => ({ method: 'GET', path: artifactsPath(input) }),
    show: {
      kind: 'table',
      columns: {
        ID: 'id',
        NAME: 'name',
        SIZE: size,
        ATTEMPT: 'attempt',
        CREATED: dateOf('createdAt'),
        EXPIRES: dateOf('expiresAt'),
      },
    },
  },
  {
    command: 'artifacts get',
    operations: ['getArtifact'],
    summary: 'download an artifact, by its name or id, as an archive',
    arguments: ['repository', 'run', 'artifact'],
    options: [
      {
        flags: '--format <format>',
        description: 'format of the archive (default: by the name of the file, else tar.gz)',
        choices: ['tar.gz', 'zip', 'tar', 'tar.zst'],
      },
      { flags: '--output <file>', description: 'file to write (default: standard output)' },
    ],
    notes: `${runNote}\n  svc artifacts get latest build | tar -xz\n\nsvc runs download unpacks artifacts.\n`,
    run: downloadArtifact,
  },
  {
    command: 'artifacts delete',
    operations: ['deleteArtifact'],
    summary: 'delete an artifact, by its name or id',
    arguments: ['repository', 'run', 'artifact'],
    notes: runNote,
    request: (input) => ({
      method: 'DELETE',
      path: artifactsPath(input) + path`/${input.argument('artifact')}`,
    }),
    show: {
      kind: 'sentence',
      text: (_, { argument }) => `Deleted the artifact ${argument('artifact')}.`,
      json: ({ argument }) => ({ deleted: argument('artifact') }),
    },
  },
  {
    command: 'artifacts usage',
    operations: ['getRunFileUsage'],
    summary: 'show the size of all artifacts and caches of a repository, and the limits',
    arguments: ['repository'],
    request: ({ argument }) => ({
      method: 'GET',
      path: path`/repos/${argument('repository')}/run-files`,
    }),
    show: {
      kind: 'fields',
      columns: { Artifacts: usageOf('artifacts'), Caches: usageOf('caches') },
    },
  },
  {
    command: 'caches list',
    operations: ['listCaches'],
    summary: 'list the caches of the workflow runs of a repository',
    arguments: ['repository'],
    request: (input) => ({ method: 'GET', path: cachesPath(input) }),
    show: {
      kind: 'table',
      isPaged: true,
      columns: {
        ID: 'id',
        KEY: 'key',
        SIZE: size,
        REF: 'ref',
        PROTECTED: (row) => (at(row, 'protected') === true ? 'yes' : 'no'),
        CREATED: dateOf('createdAt'),
        USED: dateOf('lastUsedAt'),
      },
    },
  },
  {
    command: 'caches delete',
    operations: ['deleteCache', 'deleteCaches'],
    summary: 'delete caches of workflow runs',
    arguments: ['repository', '[cache]'],
    options: [
      { flags: '--key <key>', description: 'those with this key' },
      { flags: '--ref <ref>', description: 'those of this branch or tag, by its full name' },
      { flags: '--all', description: 'all of the repository' },
    ],
    notes: '\nThe cache is an id.\n',
    request: toDeletion,
    show: {
      kind: 'sentence',
      text: (body) => `Deleted caches: ${textAt(body, 'deleted') || '1'}.`,
      json: () => ({ deleted: 1 }),
    },
  },
]

function usageOf(kind: string): Cell {
  const bytesAt = (body: Json, name: string) => toSize(Number(at(body, `${kind}.${name}`)))
  return (body) =>
    `${textAt(body, `${kind}.count`)}, ${bytesAt(body, 'sizeBytes')} of ${bytesAt(body, 'maxBytes')}`
}

function toDeletion(input: CommandInput) {
  const { argument, option, flag } = input
  const id = argument('cache')
  const [key, ref] = [option('key'), option('ref')]
  const ways = [id !== '', key !== undefined || ref !== undefined, flag('all') === true]
  if (ways.filter(Boolean).length !== 1)
    throw new UsageError('Give the id of a cache, or --key and --ref, or --all.')
  return id === ''
    ? { method: 'DELETE', path: cachesPath(input), query: { key, ref } }
    : { method: 'DELETE', path: cachesPath(input) + path`/${id}` }
}

function artifactsPath({ argument }: Pick<CommandInput, 'argument'>): string {
  return path`/repos/${argument('repository')}/workflows/${argument('run')}/artifacts`
}

function cachesPath({ argument }: Pick<CommandInput, 'argument'>): string {
  return path`/repos/${argument('repository')}/caches`
}
