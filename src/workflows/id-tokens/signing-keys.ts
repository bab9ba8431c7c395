import { createPrivateKey, generateKeyPair, type KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import { type Clock, dayMs } from '#base/clock.ts'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import { newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import { Sensitive } from '#base/sensitive.ts'
import type { Db, SigningKeyRow } from '#database/schema.ts'
import type { Vault } from '#secrets/vault/vault.ts'
import { deleteSigningKeys, insertSigningKey, listSigningKeys } from './signing-key-store.ts'

/** A public key with its id, use and algorithm (RFC 7517). */
export type PublicJwk = { kid: string; kty: string; use: 'sig'; alg: 'RS256'; n: string; e: string }

type SigningKey = { id: string; privateKey: KeyObject }

/**
 * The keys of the service that sign ID tokens. They are in the database, so that all nodes have the same, with the private
 * half sealed. One that no encryption key opens any more is replaced.
 */
export type SigningKeys = {
  /** Returns the key that signs now. Throws `encryption_key_missing`. */
  current: () => Promise<SigningKey>
  /** The public halves of all keys by which a token can be signed that has not expired, or soon. */
  listPublic: () => Promise<PublicJwk[]>
}

type Dependencies = { db: Db; clock: Clock; vault: () => Promise<Vault> }

const modulusLength = 2048
/** A key signs for this long. */
const signingMs = 30 * dayMs
/** It is published before it signs, and for as long after, since verifiers keep the list of keys for a while. */
const publishedMs = dayMs

const generate = promisify(generateKeyPair)

/** The key that signs, by the times of creation of the keys, newest first; and whether the next one is due. */
export function chooseKey<K extends { createdAt: number }>(
  keys: readonly K[],
  now: number,
): { signer: K | undefined; isNextDue: boolean } {
  const [newest] = keys
  const live = keys.filter(({ createdAt }) => now - createdAt < publishedMs + signingMs)
  const signer = live.find(({ createdAt }) => now - createdAt >= publishedMs) ?? live[0]
  return { signer, isNextDue: !newest || now - newest.createdAt >= signingMs }
}

export function createSigningKeys({ db, clock, vault }: Dependencies): SigningKeys {
  const share = createSingleFlight<SigningKeyRow>()
  // The key that signed last: opening one takes longer than signing.
  let last: SigningKey | undefined

  async function create(opened: Vault): Promise<SigningKeyRow> {
    if (opened.keyIds.length === 0) {
      const detail = 'The server has no key to encrypt the signing key of ID tokens with.'
      throw new Problem('encryption_key_missing', detail)
    }
    const { publicKey, privateKey } = await generate('rsa', { modulusLength })
    const now = clock.now()
    const id = newId(now)
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    const { keyId, sealedValue } = opened.seal(new Sensitive(pem), bindingOf(id))
    const row = {
      id,
      publicKey: JSON.stringify(publicKey.export({ format: 'jwk' })),
      sealedPrivate: sealedValue,
      keyId,
      createdAt: now,
    }
    await insertSigningKey(db, row)
    await deleteSigningKeys(db, now - signingMs - 2 * publishedMs)
    return row
  }

  return {
    async current() {
      const opened = await vault()
      const isUsable = ({ keyId }: SigningKeyRow) => opened.keyIds.includes(keyId)
      const usable = (await listSigningKeys(db)).filter(isUsable)
      const { signer: known, isNextDue } = chooseKey(usable, clock.now())
      const next = isNextDue ? await share('next', () => create(opened)) : undefined
      const signer = known ?? next
      if (!signer) throw new Error('there is no signing key')
      if (last?.id !== signer.id) last = openKey(opened, signer)
      return last
    },

    async listPublic() {
      const rows = await listSigningKeys(db)
      return rows.map(({ id, publicKey }) => toJwk(id, publicKey))
    },
  }
}

function openKey(vault: Vault, { id, sealedPrivate }: SigningKeyRow): SigningKey {
  const opened = vault.open(sealedPrivate, bindingOf(id))
  if ('fault' in opened) throw new Error(`the signing key ${id} cannot be opened: ${opened.fault}`)
  return { id, privateKey: createPrivateKey(opened.value.reveal()) }
}

// No repository has this id, and no secret this name.
function bindingOf(id: string) {
  return { scopeId: '', name: `signing key ${id}` }
}

function toJwk(kid: string, publicKey: string): PublicJwk {
  const { kty, n, e } = JSON.parse(publicKey)
  return { kid, kty, use: 'sig', alg: 'RS256', n, e }
}
