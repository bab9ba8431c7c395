import type { WorkflowKey } from '../expressions/workflow-keys.ts'
import { type FaultList, listed, quoted, unknownInput } from '../source/fault-list.ts'
import { type Field, openNamed } from '../source/fields.ts'
import type { StorageAction, StorageStep } from '../workflow.ts'
import { readTemplates } from './values.ts'

const cacheInputs = ['path', 'key', 'enableCrossOsArchive']
const restoreInputs = [...cacheInputs, 'restore-keys', 'fail-on-cache-miss', 'lookup-only']

type Inputs = { all: string[]; required: string[] }

/** The inputs of each action: its action.yml at GitHub. */
const inputsOf: Record<StorageAction, Inputs> = {
  cache: { all: [...restoreInputs, 'upload-chunk-size'], required: ['path', 'key'] },
  'cache/restore': { all: restoreInputs, required: ['path', 'key'] },
  'cache/save': { all: [...cacheInputs, 'upload-chunk-size'], required: ['path', 'key'] },
  'upload-artifact': {
    all: [
      'name',
      'path',
      'if-no-files-found',
      'retention-days',
      'compression-level',
      'overwrite',
      'include-hidden-files',
    ],
    required: ['path'],
  },
  'download-artifact': { all: ['name', 'path', 'pattern', 'merge-multiple'], required: [] },
}

const ofOtherRuns = ['repository', 'run-id', 'github-token', 'artifact-ids']

/** The action that `uses` names, in any version; undefined if it is another one. */
export function storageActionOf(uses: string): StorageAction | undefined {
  const [, name = ''] = /^actions\/([\w/-]+)(?:@|$)/i.exec(uses) ?? []
  const lower = name.toLowerCase()
  // `inputsOf` has all of them.
  return Object.hasOwn(inputsOf, lower) ? (lower as StorageAction) : undefined
}

/** Reads `with` of an action that keeps files. */
export function readStorage(
  action: StorageAction,
  field: Field,
  withField: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): Pick<StorageStep, 'kind' | 'action' | 'with'> {
  const { all, required } = inputsOf[action]
  const entries = withField ? openNamed(withField, faults, 'Write "NAME: value" lines.') : []
  const isNamed = (name: string, other: string) => name.toLowerCase() === other.toLowerCase()
  for (const { name, keyPosition } of entries) {
    if (all.some((known) => isNamed(known, name))) continue
    const isOther = action === 'download-artifact' && ofOtherRuns.includes(name)
    if (!isOther) {
      faults.note(keyPosition, unknownInput(`action actions/${action}`, name))
      continue
    }
    const message = `${quoted(name)} is not supported: artifacts are those of this run, by their names.`
    faults.unsupported(keyPosition, message, `Use ${listed(all)}.`)
  }
  for (const name of required) {
    if (entries.some((entry) => isNamed(entry.name, name))) continue
    const message = `The action actions/${action} needs the input ${quoted(name)}.`
    faults.add(field.keyPosition, message, `Write "with:" with "${name}:".`)
  }
  return { kind: 'storage', action, with: readTemplates(withField, workflowKey, faults) }
}
