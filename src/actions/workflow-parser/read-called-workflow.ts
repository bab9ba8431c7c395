import { type FaultList, quoted } from './fault-list.ts'
import { checkNumberOfEntries, type Field, type FieldMessage, openNamed } from './fields.ts'
import { maxCallEntries } from './read-workflow-call.ts'
import { readTemplates, readTemplateTree, readText } from './values.ts'
import type { TemplateTree, WorkflowCall } from './workflow.ts'
import { githubFolder, workflowsFolder } from './workflow-folders.ts'

/** The folders of workflows that can be called. */
const folders: string[] = [workflowsFolder, githubFolder]

type CallFields = { uses: Field; with: Field | undefined; secrets: Field | undefined }

/** Reads the `uses` of a job, which calls a workflow of the repository. */
export function readCalledWorkflow(
  { uses, with: inputs, secrets }: CallFields,
  faults: FaultList,
): WorkflowCall | undefined {
  const text = readText(uses, faults)
  if (text === undefined) return undefined
  if (isForeign(text)) {
    const message = `Workflows of other repositories, such as ${quoted(text)}, cannot be called.`
    const advice = `Copy the file into the repository. ${instead}`
    return void faults.unsupported(uses.node.position, message, advice)
  }
  const fault = faultOf(text)
  if (fault) return void faults.add(uses.node.position, ...fault)
  for (const field of [inputs, secrets]) {
    if (field) checkNumberOfEntries(field, maxCallEntries, faults)
  }
  return {
    path: text.slice('./'.length),
    with: readInputs(inputs, faults),
    secrets: readSecrets(secrets, faults),
    position: uses.node.position,
  }
}

const instead = `Write "uses: ./${folders[0]}/<file>" or "uses: ./${folders[1]}/<file>".`

function isForeign(uses: string): boolean {
  return /^[^./][^/]*\/[^/]+\/.*@/.test(uses)
}

function faultOf(uses: string): FieldMessage | undefined {
  const isInFolder = folders.some((folder) => uses.startsWith(`./${folder}/`))
  const name = uses.split('/').slice(3).join('/')
  if (isInFolder && /^[^/\\\p{Cc}]+\.ya?ml$/u.test(name)) return undefined
  return [`${quoted(uses)} is not a workflow of this repository.`, instead]
}

function readInputs(field: Field | undefined, faults: FaultList): Record<string, TemplateTree> {
  if (!field) return {}
  const entries = openNamed(field, faults, 'Write "name: value" lines.').flatMap((entry) => {
    const { name, node, label } = entry
    if (node.kind === 'scalar') return [[name, readTemplateTree(node, 'job.with', faults)] as const]
    const message = `The input ${label} is a ${node.kind === 'map' ? 'mapping' : 'list'}.`
    faults.add(node.position, message, 'Pass JSON as a string, and read it with fromJSON.')
    return []
  })
  return Object.fromEntries(entries)
}

function readSecrets(field: Field | undefined, faults: FaultList): WorkflowCall['secrets'] {
  if (field?.node.kind !== 'scalar') return readTemplates(field, 'job.secrets', faults)
  if (field.node.value === 'inherit') return 'inherit'
  const advice = 'Write "inherit", or "NAME: ${{ secrets.NAME }}" lines.'
  faults.add(field.node.position, '"secrets" is neither "inherit" nor a mapping.', advice)
  return {}
}
