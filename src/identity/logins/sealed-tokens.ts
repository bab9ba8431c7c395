import { Sensitive } from '#base/sensitive.ts'

/** The part of the vault that logins use. */
type SealingVault = {
  keyIds: readonly string[]
  seal: (value: Sensitive<string>, place: Place) => { sealedValue: Uint8Array }
  open: (sealedValue: Uint8Array, place: Place) => { value: Sensitive<string> } | { fault: string }
}

type Place = { scopeId: string; name: string }

/** Seals the refresh tokens of logins, each of which is bound to its login. */
export type SealTokens = {
  /** Undefined without an encryption key: the token is then not kept. */
  seal: (loginId: string, token: string) => Promise<Uint8Array | undefined>
  /** Undefined if no encryption key opens it. */
  open: (loginId: string, sealed: Uint8Array) => Promise<string | undefined>
}

export function createSealTokens(vault: () => Promise<SealingVault>): SealTokens {
  const placeOf = (loginId: string) => ({ scopeId: loginId, name: 'refresh token' })
  return {
    async seal(loginId, token) {
      const { keyIds, seal } = await vault()
      if (keyIds.length === 0) return undefined
      return seal(new Sensitive(token), placeOf(loginId)).sealedValue
    },

    async open(loginId, sealed) {
      const opened = (await vault()).open(sealed, placeOf(loginId))
      return 'value' in opened ? opened.value.reveal() : undefined
    },
  }
}
