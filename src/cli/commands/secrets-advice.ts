import { usedSecrets } from '#actions/workflow-parser/named-secrets.ts'
import { isSecretIdentifier } from '#actions/workflow-parser/source/fields.ts'
import type { SourceFile, Workflow } from '#actions/workflow-parser/workflow.ts'

/** Returns a line per workflow that inherits all secrets, with the list that its expressions need. */
export function secretsAdvice(workflows: readonly Workflow[], files: readonly SourceFile[]) {
  return workflows
    .filter(({ secrets }) => secrets === 'inherit')
    .map(({ path }) => {
      const text = files.find((file) => file.path === path)?.text ?? ''
      const list = [...new Set(usedSecrets(text))].filter(isSecretIdentifier).sort().join(', ')
      return (
        `${path}: "secrets: inherit" gives its steps every secret of the repository, also those that are added later. ` +
        `Recommended: leave it out, so that they get those that the file names, or list them, "secrets: [${list}]".\n`
      )
    })
}
