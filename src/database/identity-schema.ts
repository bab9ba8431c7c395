/** A token of jobs of a run; valid while `claim` is the hash of the token of the running run. */
export type JobTokenRow = {
  tokenHash: string
  runId: string
  claim: string
  /** The path and the name of the workflow. */
  file: string
  workflow: string
  /** The path of the file that has the jobs: another one if it is called. */
  jobFile: string
  /** Permission names, separated by spaces, or `id-token`. */
  rights: string
}

/** A key pair that signs ID tokens. */
export type SigningKeyRow = {
  id: string
  /** JSON: a JWK (RFC 7517). */
  publicKey: string
  /** The private key in PEM (PKCS #8), sealed with a key: see secrets/vault/vault.ts. */
  sealedPrivate: Uint8Array
  /** The id of that key, in hex. */
  keyId: string
  createdAt: number
}
