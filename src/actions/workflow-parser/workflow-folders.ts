/** The folder of workflow files in a repository. */
export const workflowsFolder = '.svc/workflows'

/** The folder of GitHub's, whose files are run only when a workflow calls them. */
export const githubFolder = '.github/workflows'

export function isWorkflowName(name: string): boolean {
  return /\.ya?ml$/.test(name)
}
