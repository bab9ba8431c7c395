/** A session of the pages; either `tokenId` or `sshKeyId` is set. */
export type SessionRow = {
  id: string
  secretHash: string
  tokenId: string | null
  sshKeyId: string | null
  username: string
  userAgent: string
  createdAt: number
  seenAt: number
  expiresAt: number
  /** Until when it may change something. */
  unlockedUntil: number
}

export type LoginCodeRow = {
  codeHash: string
  tokenId: string | null
  sshKeyId: string | null
  expiresAt: number
}
