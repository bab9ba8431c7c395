/** A repository that can be imported. */
export type Candidate = {
  /** Its address without credentials, or its path. */
  source: string
  /** The same with credentials. */
  address: string
  /** Its path below the folder or the host, such as `acme/site`. */
  path: string
  description?: string
  defaultBranch?: string
  visibility?: string
  /** Reads what belongs to it. */
  readDetails?: () => Promise<Details>
}

/** A rule for a branch: whether only some of those who may write may push to it, and whether they may force it. */
export type BranchRule = { pattern: string; isRestricted: boolean; forcePush: boolean }

export type Details = {
  protections: BranchRule[]
  deployKeys: { name: string; publicKey: string; mayPush: boolean }[]
  /** Their URLs. */
  webhooks: string[]
  /** What the token may not read. */
  unread: string[]
}
