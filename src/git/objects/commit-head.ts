/**
 * The tree and the parents of a commit. Git also reads ids in capitals; such a commit has an empty tree and no parents here,
 * so that it proves nothing.
 */
export function headOfCommit(content: Buffer): { tree: string; parents: string[] } {
  const [, tree = '', lines = ''] =
    /^tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)author/.exec(content.toString('latin1')) ??
    []
  return { tree, parents: [...lines.matchAll(/[0-9a-f]{40}/g)].map(([id]) => id) }
}
