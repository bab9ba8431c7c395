import { Sensitive } from '#base/sensitive.ts'
import type { Db } from '#database/schema.ts'
import { listRefreshTokens, replaceRefreshToken } from './login-store.ts'

/** The part of the vault that logins use. */
type SealingVault = {
  keyIds: readonly string[]
  seal: (value: Sensitive<string>, place: Place) => { keyId: string; sealedValue: Uint8Array }
  /** The key that has sealed a value. */
  keyIdOf: (sealedValue: Uint8Array) => string
  open: (sealedValue: Uint8Array, place: Place) => { value: Sensitive<string> } | { fault: string }
}

type Place = { scopeId: string; name: string }

/** Seals the refresh tokens of logins, each of which is bound to its login. */
export type SealTokens = {
  /** Undefined without an encryption key: the token is then not kept. */
  seal: (loginId: string, token: string) => Uint8Array | undefined
  /** Throws if no encryption key opens it. */
  open: (loginId: string, sealed: Uint8Array) => string
}

export function createSealTokens({ keyIds, seal, open }: SealingVault): SealTokens {
  return {
    seal: (loginId, token) =>
      keyIds.length === 0 ? undefined : seal(new Sensitive(token), placeOf(loginId)).sealedValue,

    open(loginId, sealed) {
      const opened = open(sealed, placeOf(loginId))
      if ('value' in opened) return opened.value.reveal()
      throw new Error(`the refresh token cannot be opened: ${opened.fault}`)
    },
  }
}

const batchSize = 100

/**
 * Seals all refresh tokens again that the first key has not sealed; returns their number. Those that no key opens, or that
 * change meanwhile, stay as they are.
 */
export async function resealRefreshTokens(
  db: Db,
  { keyIds, keyIdOf, seal, open }: SealingVault,
  signal: AbortSignal,
): Promise<number> {
  let resealed = 0
  for (let after: string | undefined = ''; after !== undefined; ) {
    const rows = await listRefreshTokens(db, { after, limit: batchSize })
    for (const { id, refreshToken } of rows) {
      signal.throwIfAborted()
      const opened =
        keyIdOf(refreshToken) === keyIds[0] ? undefined : open(refreshToken, placeOf(id))
      if (!opened || !('value' in opened)) continue
      const { sealedValue } = seal(opened.value, placeOf(id))
      if (await replaceRefreshToken(db, { id, former: refreshToken, sealedValue })) resealed++
    }
    after = rows.length < batchSize ? undefined : rows.at(-1)?.id
  }
  return resealed
}

function placeOf(loginId: string): Place {
  return { scopeId: loginId, name: 'refresh token' }
}
