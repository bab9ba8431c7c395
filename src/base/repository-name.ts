/** The namespace in the name of a repository; undefined for a name without one. */
export function namespaceIn(repositoryName: string): string | undefined {
  const slash = repositoryName.indexOf('/')
  return slash === -1 ? undefined : repositoryName.slice(0, slash)
}

/** The name of a repository within its namespace, or its whole name. */
export function nameWithin(repositoryName: string): string {
  return repositoryName.slice(repositoryName.indexOf('/') + 1)
}

/** The name of a repository as GitHub has it: `owner/name`, where a namespace takes the place of the owner. */
export function fullNameOf({ name, owner }: { name: string; owner: string }): string {
  return namespaceIn(name) === undefined ? `${owner}/${name}` : name
}

/** The owner in `fullNameOf`. */
export function fullOwnerOf({ name, owner }: { name: string; owner: string }): string {
  return namespaceIn(name) ?? owner
}

/** The path of a repository in the API, where the slash of its name is encoded. */
export function apiPathOf(repositoryName: string): string {
  return `/repos/${encodeURIComponent(repositoryName)}`
}

/** The operation of the API about a namespace for one about a repository: `listNamespaceSecrets` for `listSecrets`. */
export function toNamespaceOperation(operationId: string): string {
  return operationId.replace(/^[a-z]+/, '$&Namespace')
}
