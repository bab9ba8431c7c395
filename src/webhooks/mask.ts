import type { ToldCommit } from '../payloads/commits.ts'

/** Replaces secrets in a text. */
export type Mask = (text: string) => string

export async function createMask(secrets: Record<string, string>): Promise<Mask> {
  const values = Object.values(secrets)
  if (values.length === 0) return (text) => text
  // Loaded only where it is used: it takes memory and time at the start.
  const { createMasker } = await import('../masking/masker.ts')
  return createMasker(values).mask
}

/** A commit with what its authors wrote masked, names of files included. */
export function maskCommit<Commit extends ToldCommit>(commit: Commit, mask: Mask): Commit {
  const { message, author, committer, files } = commit
  return {
    ...commit,
    message: mask(message),
    author: { ...author, name: mask(author.name), email: mask(author.email) },
    committer: { ...committer, name: mask(committer.name), email: mask(committer.email) },
    ...(files && {
      files: {
        added: files.added.map(mask),
        removed: files.removed.map(mask),
        modified: files.modified.map(mask),
      },
    }),
  }
}
