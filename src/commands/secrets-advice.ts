import { isSecretName } from '../workflow-parser/identifiers.ts'
import type { SourceFile, Workflow } from '../workflow-parser/workflow.ts'

const uses = /\bsecrets(?:\.(\w+)|\['(\w+)'\])/gi

/** Returns a line per workflow without a list of secrets, with the list that its expressions need. */
export function secretsAdvice(workflows: readonly Workflow[], files: readonly SourceFile[]) {
  return workflows
    .filter(({ secrets }) => secrets === undefined)
    .map(({ path }) => {
      const text = files.find((file) => file.path === path)?.text ?? ''
      const names = [...text.matchAll(uses)].map(([, name, quoted]) => name ?? quoted ?? '')
      const list = [...new Set(names)].filter(isSecretName).sort().join(', ')
      return (
        `${path}: its steps get every secret of the repository. Recommended: list only those that they need, ` +
        `"secrets: [${list}]", including those that scripts read as variables.\n`
      )
    })
}
