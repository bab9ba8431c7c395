import type { Json } from '#base/json.ts'
import { at } from '../display.ts'
import { path } from '../http-client.ts'
import type { ClientOperation, CommandInput, OptionRow } from '../operation.ts'
import { pathOf } from './option-values.ts'

const tagOption: OptionRow = { flags: '--tag', description: 'protect tags, not branches' }

export const protectionOperations: ClientOperation[] = [
  {
    command: 'protections list',
    operations: ['listBranchProtections', 'listTagProtections'],
    summary: 'list the rules of protected branches, or tags',
    arguments: ['repository'],
    options: [{ flags: '--tag', description: 'list those of tags' }],
    request: (input) => ({ method: 'GET', path: rulesPath(input) }),
    show: {
      kind: 'table',
      rows: rulesOf,
      columns: { PATTERN: 'pattern', OWNERS: 'owners', REQUIRES: 'requires' },
    },
  },
  {
    command: 'protections add',
    operations: ['addBranchProtection', 'addTagProtection'],
    summary: 'protect branches by name or pattern, or change the rule',
    arguments: ['repository', 'pattern'],
    options: [
      tagOption,
      {
        flags: '--owners <updates>',
        description: 'updates that owners may make (default: any)',
        choices: ['any', 'fast-forward', 'none'],
      },
      {
        flags: '--requires <file...>',
        description: 'workflow files of which the pushed commit needs a successful run',
      },
    ],
    notes: '\n  svc protections add main --owners fast-forward --requires ci.yml\n',
    request: (input) => ({
      method: 'PUT',
      path: rulesPath(input) + path`/${input.argument('pattern')}`,
      body: { owners: input.option('owners'), requires: input.list('requires')?.map(pathOf) },
    }),
    show: {
      kind: 'sentence',
      text: (_, { argument, flag }) =>
        `Protected the ${flag('tag') ? 'tag' : 'branch'} ${argument('pattern')}.`,
    },
  },
  {
    command: 'protections remove',
    operations: ['deleteBranchProtection', 'deleteTagProtection'],
    summary: 'remove a rule',
    arguments: ['repository', 'pattern'],
    options: [{ flags: '--tag', description: 'a rule of tags, not of branches' }],
    request: (input) => ({
      method: 'DELETE',
      path: rulesPath(input) + path`/${input.argument('pattern')}`,
    }),
    show: {
      kind: 'sentence',
      text: (_, { argument }) => `Removed the rule ${argument('pattern')}.`,
    },
  },
]

function rulesPath({ argument, flag }: CommandInput): string {
  return path`/repos/${argument('repository')}/protections/${flag('tag') ? 'tags' : 'branches'}`
}

function rulesOf(body: Json): Json[] {
  const rules = at(body, 'rules')
  return Array.isArray(rules) ? rules : []
}
