/** A public key is not accepted. The message says what to do, and contains nothing of the key. */
export class PublicKeyError extends Error {
  override readonly name = 'PublicKeyError'
}
