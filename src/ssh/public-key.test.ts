import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { exhaustive } from '../../test/support/exhaustive.ts'
import { character } from '../../test/support/fuzz.ts'
import { temporaryFolder } from '../../test/support/git.ts'
import { without } from '../../test/support/programs.ts'
import { toRounds } from '../../test/support/rounds.ts'
import {
  generateKey,
  newKeyLine,
  securityKeys,
  sshKeygen,
  toLine,
  writeMpint,
} from '../../test/support/ssh-keys.ts'
import { fingerprintOf, parsePublicKey } from './public-key.ts'
import { PublicKeyError } from './public-key-error.ts'
import { writeString } from './wire.ts'

const skip = without('openssh')

let folder: Awaited<ReturnType<typeof temporaryFolder>>
before(async () => {
  folder = await temporaryFolder()
})
after(() => folder[Symbol.asyncDispose]())

const accepted = [
  ['ed25519', 'ssh-ed25519'],
  ['ecdsa', 'ecdsa-sha2-nistp256', '256'],
  ['ecdsa', 'ecdsa-sha2-nistp384', '384'],
  ['ecdsa', 'ecdsa-sha2-nistp521', '521'],
  ['rsa', 'ssh-rsa', '2048'],
  ['rsa', 'ssh-rsa', '3072'],
] as const

for (const [kind, type, bits] of accepted) {
  test(`a key of ssh-keygen is read: ${type} ${bits ?? ''}`, { skip }, async () => {
    const path = join(folder.path, `${type}-${bits}`)
    const text = await generateKey(path, '-t', kind, ...(bits ? ['-b', bits] : []))
    const key = parsePublicKey(text)
    const printed = await sshKeygen('-l', '-f', `${path}.pub`)
    assert.deepEqual([key.type, key.comment, key.line], [type, 'ada@laptop', text.trim()])
    assert.equal(key.fingerprint, printed.split(' ')[1])
    assert.equal(key.fingerprint, fingerprintOf(key.blob))
  })
}

for (const [type, make] of Object.entries(securityKeys)) {
  test(`a security key is read as ssh-keygen reads it: ${type}`, { skip }, async () => {
    const line = toLine(type, [...make().fields, 'ssh:'], 'token')
    const path = join(folder.path, `${type}.pub`)
    await writeFile(path, line)
    const printed = await sshKeygen('-l', '-f', path)
    assert.equal(parsePublicKey(line).fingerprint, printed.split(' ')[1])
    assertRefused(toLine(type, [...make().fields, '']), /damaged/)
    assertRefused(toLine(type, make().fields), /damaged/)
  })
}

test('weak keys are rejected with advice', { skip }, async () => {
  const rsa = await generateKey(join(folder.path, 'weak'), '-t', 'rsa', '-b', '1024')
  assertRefused(rsa, /2048 bits or more, and this has 1024; make .* `ssh-keygen -t ed25519`\.$/)
  const dsa = await generateKey(join(folder.path, 'dsa'), '-t', 'dsa')
  assertRefused(dsa, /^DSA keys are too weak; make .* `ssh-keygen -t ed25519`\.$/)
})

test('a private key is rejected as exposed, and not printed', { skip }, async () => {
  for (const format of ['RFC4716', 'PEM', 'PKCS8']) {
    const path = join(folder.path, `private-${format}`)
    await generateKey(path, '-t', 'rsa', '-b', '2048', '-m', format)
    const text = await readFile(path, 'utf8')
    const fault = assertRefused(text, /^This is a private key.* exposed.* send the \.pub file\.$/)
    const [, body = ''] = text.split('\n')
    assert.ok(!fault.includes(body))
    assert.ok(
      !assertRefused(text.split('\n').slice(1).join(' '), /starts with its type/).includes(body),
    )
  }
  assertRefused('PuTTY-User-Key-File-3: ssh-ed25519', /private key/)
})

test('other files of ssh-keygen are rejected with the command that converts them', {
  skip,
}, async () => {
  const path = join(folder.path, 'formats')
  await generateKey(path, '-t', 'rsa')
  const forms = { RFC4716: /RFC 4716.*ssh-keygen -i/, PEM: /PEM file/, PKCS8: /PEM file/ }
  for (const [format, expected] of Object.entries(forms)) {
    assertRefused(await sshKeygen('-e', '-m', format, '-f', `${path}.pub`), expected)
  }
  await sshKeygen('-q', '-s', path, '-I', 'id', `${path}.pub`)
  assertRefused(await readFile(`${path}-cert.pub`, 'utf8'), /This is a certificate/)
})

test('only white space around a key is ignored', () => {
  const line = newKeyLine('ada')
  const [type, base64] = line.split(' ')
  for (const text of [line, `${line}\n`, `${line}\r\n`, ` \t${type}  ${base64}\tada \n`]) {
    assert.equal(parsePublicKey(text).line, line)
  }
  assert.equal(parsePublicKey(`${type} ${base64}`).line, `${type} ${base64}`)
  assert.equal(parsePublicKey(`${line} of  laptop`).comment, 'ada of  laptop')
  const refused: [string, RegExp][] = [
    ['', /empty/],
    [' \n', /empty/],
    [`${line}\n${line}`, /several lines/],
    [`# key\n${line}`, /several lines/],
    [`command="x y" ${line}`, /options before the key/],
    [`no-pty ${line}`, /options before the key/],
    [`cert-authority ${line}`, /options before the key/],
    [`ssh-ed448 ${base64}`, /starts with its type, one of ssh-ed25519, /],
    [`toString ${base64}`, /starts with its type/],
    [`ssh-ed25519-cert-v01@openssh.com ${base64}`, /certificate/],
    [`ssh-dss ${base64}`, /DSA/],
    [`ecdsa-sha2-nistp256 ${base64}`, /says ecdsa-sha2-nistp256, but the key in it/],
    ['ssh-ed25519', /not base64/],
    [`ssh-ed25519 ${base64}=`, /not base64/],
    [`ssh-ed25519 ${base64?.slice(0, -1)}`, /not base64/],
    [`ssh-ed25519 ${base64?.replaceAll('A', '!')}`, /not base64/],
    [`ssh-ed25519 ${base64?.slice(0, -4)}`, /damaged/],
    [`${line}\0`, /not plain text/],
    [Buffer.from(line, 'utf16le').toString(), /not plain text/],
    [`${line} \x1b[2J`, /control character/],
    [`${line}\u2028x`, /control character/],
    [`${line}\ud800`, /control character/],
    [`${line} ${'x'.repeat(16_384)}`, /longer than 16384/],
  ]
  for (const [text, expected] of refused) assertRefused(text, expected)
})

test('the wire form of a key is unique, and can verify', () => {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
  const [left, right] = [Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]
  const uncompressed = Buffer.concat([Buffer.of(4), left, right])
  const ecdsa = (curve: string, point: Buffer) => toLine('ecdsa-sha2-nistp256', [curve, point])
  parsePublicKey(ecdsa('nistp256', uncompressed))
  const off = Buffer.from(uncompressed)
  off.writeUInt8(off.readUInt8(64) ^ 1, 64)
  for (const point of [off, Buffer.concat([Buffer.of(2), left]), Buffer.alloc(65), Buffer.of(0)]) {
    assertRefused(ecdsa('nistp256', point), /damaged/)
  }
  assertRefused(ecdsa('nistp384', uncompressed), /damaged/)
  assertRefused(toLine('ssh-ed25519', [left.subarray(1)]), /damaged/)
  assertRefused(`${toLine('ssh-ed25519', [])}`, /damaged/)
  // RFC 7748 and "Taming the many EdDSAs" list the points of small order, and forms that are not the only one.
  const points = [
    '0000000000000000000000000000000000000000000000000000000000000000',
    '0100000000000000000000000000000000000000000000000000000000000000',
    'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
    'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    '0200000000000000000000000000000000000000000000000000000000000000',
  ]
  for (const point of points) {
    assertRefused(toLine('ssh-ed25519', [Buffer.from(point, 'hex')]), /damaged/)
  }
})

test('an RSA key has valid numbers in canonical form', () => {
  const modulus = Buffer.alloc(256, 0xff)
  const rsa = (exponent: Buffer, number: Buffer) => {
    const blob = Buffer.concat([writeString('ssh-rsa'), exponent, number])
    return `ssh-rsa ${blob.toString('base64')}`
  }
  parsePublicKey(rsa(writeMpint(Buffer.of(1, 0, 1)), writeMpint(modulus)))
  const exponents = [Buffer.of(0), Buffer.of(1), Buffer.of(2), Buffer.alloc(9, 0xff)]
  for (const exponent of exponents) {
    assertRefused(rsa(writeMpint(exponent), writeMpint(modulus)), /damaged/)
  }
  const three = writeMpint(Buffer.of(3))
  assertRefused(rsa(three, writeString(modulus)), /damaged/)
  assertRefused(rsa(writeString(Buffer.of(0, 3)), writeMpint(modulus)), /damaged/)
  assertRefused(rsa(three, writeMpint(Buffer.alloc(256, 0xfe))), /damaged/)
  const short = Buffer.concat([Buffer.of(0x7f), modulus.subarray(1)])
  assertRefused(rsa(three, writeMpint(short)), /this has 2047/)
  assertRefused(rsa(three, writeMpint(Buffer.alloc(2049, 0xff))), /may have at most 16384 bits/)
})

test('any input is a key or an error', exhaustive, () => {
  const lines = [newKeyLine('ada'), toLine('sk-ssh-ed25519@openssh.com', ['x', 'ssh:'])]
  const mutated = fc.constantFrom(...lines).chain((line) => {
    const place = fc.nat(line.length)
    return fc
      .tuple(place, place, fc.string())
      .map(([a, b, put]) => line.slice(0, a) + put + line.slice(b))
  })
  const blobs = fc
    .tuple(
      fc.constantFrom('ssh-rsa', 'ssh-ed25519', 'ecdsa-sha2-nistp256'),
      fc.array(fc.uint8Array()),
    )
    .map(([type, fields]) => toLine(type, fields))
  fc.assert(
    fc.property(fc.oneof(mutated, blobs, fc.string({ unit: character })), (text) => {
      try {
        assert.equal(parsePublicKey(parsePublicKey(text).line).line, parsePublicKey(text).line)
      } catch (error) {
        assert.ok(error instanceof PublicKeyError, String(error))
      }
    }),
    { numRuns: toRounds(300) },
  )
})

function assertRefused(text: string, expected: RegExp): string {
  try {
    parsePublicKey(text)
  } catch (error) {
    assert.ok(error instanceof PublicKeyError, String(error))
    assert.match(error.message, expected)
    assert.match(error.message, /^[A-Z].*\.$/)
    return error.message
  }
  return assert.fail(`accepted: ${text}`)
}
