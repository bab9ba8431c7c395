import { isId } from '#base/ids.ts'
import type { ClientOperation } from './operations/operation.ts'
import { UsageError } from './terminal/command-errors.ts'

type Given = {
  given: string[]
  /** Whether an option has the path, which is no argument then. */
  hasPathOption: boolean
  /** The repository of the clone. */
  inClone: string | undefined
}

const isPlace = ([word = '']: string[]) => /^(latest|\d+)$/.test(word) || isId(word)

/** Whether the given arguments are without a repository when they are fewer than all, by the one that may be left out. */
const withoutRepository: Record<string, (given: string[]) => boolean> = {
  '[run]': isPlace,
  '[push]': isPlace,
  '[cache]': isPlace,
  '[version]': ([word = '']) => /^\d+$/.test(word),
  '[path]': ([word = '']) => word.includes('/') || word === '.' || word === '..',
  // Only pushes have refs.
  '[ref]': ([action]) => action === 'push',
}

/** Gives names to the arguments. Where the repository is missing, it is the one of the clone. */
export function nameArguments(
  { arguments: all = [], command }: Pick<ClientOperation, 'arguments' | 'command'>,
  { given, hasPathOption, inClone }: Given,
): Record<string, string> {
  const names = hasPathOption ? all.filter((name) => plainName(name) !== 'path') : all
  if (given.length > names.length)
    throw new UsageError('Give the path once: as an argument or with an option.')
  const plain = names.map(plainName)
  const required = names.filter((name) => !name.startsWith('[')).length
  const isInferred =
    names[0] === 'repository' &&
    (given.length < required ||
      (given.length < names.length &&
        inClone !== undefined &&
        (given.length === 0 || withoutRepository[names.at(-1) ?? '']?.(given) === true)))
  const values = isInferred && inClone !== undefined ? [inClone, ...given] : given
  if (values.length < required) {
    const missing = plain[isInferred && inClone === undefined ? 0 : values.length]
    const hint =
      missing === 'repository'
        ? 'Give the repository, or change to a clone of it'
        : `Give the ${missing}`
    throw new UsageError(`${hint}; svc ${command} --help shows the arguments.`)
  }
  return Object.fromEntries(plain.map((name, index) => [name, values[index] ?? '']))
}

function plainName(name: string): string {
  return name.replace(/[[\]]/g, '')
}
