/** Why a public key is not accepted: a sentence that says what to do, and holds nothing of the key. */
export class PublicKeyError extends Error {
  override readonly name = 'PublicKeyFault'
}
