import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { temporaryFolder } from '../../test/support/git.ts'
import { without } from '../../test/support/programs.ts'
import { toRounds } from '../../test/support/rounds.ts'
import {
  generateKey,
  securityKeys,
  signWithSecurityKey,
  sshKeygen,
  toLine,
  writeMpint,
} from '../../test/support/ssh-keys.ts'
import { parsePublicKey } from './public-key.ts'
import { fitsAlgorithm, signatureAlgorithms, verifySignature } from './signature.ts'
import { createReader, writeString } from './wire.ts'

const data = Buffer.from('what is signed')

const signed = [
  ['ssh-ed25519', '-t', 'ed25519'],
  ['ecdsa-sha2-nistp256', '-t', 'ecdsa', '-b', '256'],
  ['ecdsa-sha2-nistp384', '-t', 'ecdsa', '-b', '384'],
  ['ecdsa-sha2-nistp521', '-t', 'ecdsa', '-b', '521'],
  ['rsa-sha2-512', '-t', 'rsa', '-b', '2048'],
] as const

for (const [algorithm, ...options] of signed) {
  test(`signatures of OpenSSH are valid: ${algorithm}`, { skip: without('openssh') }, async () => {
    await using folder = await temporaryFolder()
    const path = join(folder.path, 'key')
    const { blob } = parsePublicKey(await generateKey(path, ...options))
    // Numbers that start with zeros come up once in some hundred signatures.
    for (let round = 0; round < 5; round++) {
      const message = `message ${round}`
      await writeFile(join(folder.path, 'file'), message)
      await sshKeygen('-q', '-Y', 'sign', '-n', 'test', '-f', path, join(folder.path, 'file'))
      const armored = await readFile(join(folder.path, 'file.sig'), 'utf8')
      await rm(join(folder.path, 'file.sig'))
      const signature = signatureIn(armored)
      const about = { blob, algorithm, signature, data: signedBySshsig(message) }
      assert.equal(verifySignature(about), true)
      assertNothingElseHolds(about)
    }
  })
}

for (const [type, make] of Object.entries(securityKeys)) {
  const { fields, sign: signBytes } = make()
  const { blob } = parsePublicKey(toLine(type, [...fields, 'ssh:']))
  const touch = { application: 'ssh:', flags: 1, counter: 0xfffffffe }
  const signature = signWithSecurityKey(type, touch, data, signBytes)

  test(`signatures of a security key are valid: ${type}`, () => {
    const about = { blob, algorithm: type, signature, data }
    assert.equal(verifySignature(about), true)
    assertNothingElseHolds(about)
  })

  test(`a security key without user presence proves nothing: ${type}`, () => {
    for (const [flags, expected] of [
      [0, false],
      [4, false],
      [5, true],
    ] as const) {
      const other = signWithSecurityKey(type, { ...touch, flags }, data, signBytes)
      assert.equal(verifySignature({ blob, algorithm: type, signature: other, data }), expected)
    }
    const elsewhere = { ...touch, application: 'ssh:elsewhere' }
    const other = signWithSecurityKey(type, elsewhere, data, signBytes)
    assert.equal(verifySignature({ blob, algorithm: type, signature: other, data }), false)
  })
}

test('RSA signatures use SHA-2, never SHA-1, at full length', () => {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const { n = '', e = '' } = publicKey.export({ format: 'jwk' })
  const numbers = [e, n].map((text) => writeMpint(Buffer.from(text, 'base64url')))
  const blob = Buffer.concat([writeString('ssh-rsa'), ...numbers])
  const signWith = (algorithm: string, hash: string, named = algorithm) => {
    const bytes = sign(hash, data, privateKey)
    const signature = Buffer.concat([writeString(named), writeString(bytes)])
    return verifySignature({ blob, algorithm, signature, data })
  }
  assert.equal(signWith('rsa-sha2-256', 'sha256'), true)
  assert.equal(signWith('rsa-sha2-512', 'sha512'), true)
  assert.equal(signWith('rsa-sha2-512', 'sha256'), false)
  assert.equal(signWith('ssh-rsa', 'sha1'), false)
  assert.equal(signWith('rsa-sha2-256', 'sha256', 'ssh-rsa'), false)
  assert.equal(signWith('rsa-sha2-256', 'sha256', 'rsa-sha2-512'), false)
  for (const name of ['__proto__', 'toString', '']) assert.equal(signWith(name, 'sha256'), false)
  for (const length of [0, 255, 257]) {
    const bytes = Buffer.concat([sign('sha256', data, privateKey), Buffer.alloc(1)])
    const signature = Buffer.concat([
      writeString('rsa-sha2-256'),
      writeString(bytes.subarray(0, length)),
    ])
    assert.equal(verifySignature({ blob, algorithm: 'rsa-sha2-256', signature, data }), false)
  }
})

test('every algorithm belongs to one type of key', () => {
  assert.ok(fitsAlgorithm('ssh-rsa', 'rsa-sha2-256') && fitsAlgorithm('ssh-rsa', 'rsa-sha2-512'))
  for (const name of signatureAlgorithms.filter((algorithm) => !algorithm.startsWith('rsa'))) {
    assert.ok(fitsAlgorithm(name, name), name)
    assert.ok(!fitsAlgorithm('ssh-rsa', name), name)
  }
  assert.ok(!fitsAlgorithm('ssh-rsa', 'ssh-rsa'))
  assert.ok(!fitsAlgorithm('ssh-dss', 'ssh-dss'))
})

type About = Parameters<typeof verifySignature>[0]

/** Changes a bit, cuts or adds something anywhere: no such signature may hold, and nothing may throw. */
function assertNothingElseHolds(about: About): void {
  const parts = fc.constantFrom('signature', 'blob', 'data')
  const changes = fc.constantFrom(flip, cut, add)
  fc.assert(
    fc.property(parts, changes, fc.nat(), fc.nat(7), (part, change, at, bit) => {
      const changed = change(about[part as 'signature'], at, bit)
      assert.equal(verifySignature({ ...about, [part]: changed }), false)
    }),
    { numRuns: toRounds(30) },
  )
  for (const algorithm of signatureAlgorithms) {
    assert.equal(verifySignature({ ...about, algorithm }), algorithm === about.algorithm)
  }
}

function flip(bytes: Buffer, at: number, bit: number): Buffer {
  const copy = Buffer.from(bytes)
  const place = at % copy.length
  copy.writeUInt8(copy.readUInt8(place) ^ (1 << bit), place)
  return copy
}

function cut(bytes: Buffer, at: number): Buffer {
  return bytes.subarray(0, at % bytes.length)
}

function add(bytes: Buffer, at: number): Buffer {
  return Buffer.concat([bytes, Buffer.of(at % 256)])
}

// OpenSSH's PROTOCOL.sshsig: the magic word, version, public key, namespace, reserved, hash, signature.
function signatureIn(armored: string): Buffer {
  const base64 = armored.replace(/-----.*-----/g, '')
  const fields = createReader(Buffer.from(base64, 'base64').subarray('SSHSIG'.length))
  fields.uint32()
  for (let field = 0; field < 4; field++) fields.string()
  return fields.string()
}

function signedBySshsig(message: string): Buffer {
  const digest = createHash('sha512').update(message).digest()
  return Buffer.concat([Buffer.from('SSHSIG'), ...['test', '', 'sha512', digest].map(writeString)])
}
