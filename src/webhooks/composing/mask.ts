import { createMasker, type Masker } from '#actions/secret-masking/masker.ts'
import type { CommitSummary } from '#git/objects/commit-object.ts'

export type Mask = Pick<Masker, 'mask' | 'maskBeginning'>

export function createMask(secrets: Record<string, string>): Mask {
  const values = Object.values(secrets)
  if (values.length === 0) return { mask: unchanged, maskBeginning: unchanged }
  return createMasker(values)
}

const unchanged = (text: string) => text

/** Masks the texts of a commit, names of files included. */
export function maskCommit<Commit extends CommitSummary>(commit: Commit, masks: Mask): Commit {
  const { message, author, committer, files, isComplete = true } = commit
  // A truncated message may end within a secret. Paths are never truncated.
  const mask = isComplete ? masks.mask : masks.maskBeginning
  return {
    ...commit,
    message: mask(message),
    author: { ...author, name: mask(author.name), email: mask(author.email) },
    committer: { ...committer, name: mask(committer.name), email: mask(committer.email) },
    ...(files && {
      files: {
        added: files.added.map(masks.mask),
        removed: files.removed.map(masks.mask),
        modified: files.modified.map(masks.mask),
      },
    }),
  }
}
