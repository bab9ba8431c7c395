/** Reads an address of a repository as Git takes it, also as scp does: `git@host:path`. Null if it has no host. */
export function parseGitAddress(address: string): URL | null {
  const [, user = '', host, path = ''] =
    /^([^/@:]+@)?([^/@:]+):(?!\/\/)\/?(.+)$/.exec(address) ?? []
  return URL.parse(host === undefined ? address : `ssh://${user}${host}/${path}`)
}

/** Whether a text is an address rather than the name of a repository. */
export function isGitAddress(text: string): boolean {
  return text.includes(':')
}
