import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { newTokenString } from '#base/token-string.ts'
import {
  newAwsKey,
  newCredentials,
  newPem,
  newPuttyKey,
} from '../../../test/support/credentials.ts'
import { exhaustive } from '../../../test/support/exhaustive.ts'
import { character } from '../../../test/support/fuzz.ts'
import { leakRules } from './rules.ts'
import { scanInSteps, scanText } from './scan-text.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const kinds = Object.keys(newCredentials)
const make = (kind: string) => newCredentials[kind]?.() ?? ''
const kindsIn = (text: string | Buffer) => scanText(Buffer.from(text)).map(({ kind }) => kind)

test('every prefix with which this program makes tokens is known', () => {
  const made = globSync('src/**/*.ts', { cwd: root })
    .filter((path) => !path.endsWith('.test.ts'))
    .flatMap(
      (path) => readFileSync(join(root, path), 'utf8').match(/(?<=refix = ')svc\w*_(?=')/g) ?? [],
    )
  assert.deepEqual([...new Set(made)].sort(), ['svc_', 'svcrun_', 'svcrunner_'])
  const known = leakRules.flatMap(({ prefixes }) => prefixes)
  assert.deepEqual(
    made.filter((prefix) => !known.includes(prefix)),
    [],
  )
})

test('every rule has a sample', () => {
  const without = leakRules.filter(({ kind }) => !kinds.includes(kind))
  assert.deepEqual(without, [])
})

for (const kind of kinds) {
  test(`finds: ${kind}`, () => {
    for (let round = 0; round < 20; round++) {
      const sample = make(kind)
      assert.deepEqual(kindsIn(sample), [kind], sample)
      const around = [
        `key = "${sample}"\n`,
        `a\r\n${sample}\r\nb`,
        `# ${sample}`,
        `<k>${sample}</k>`,
      ]
      for (const text of around) assert.deepEqual(kindsIn(text), [kind], text)
    }
  })

  test(`finds no ${kind} in one that is cut, and in a placeholder for it`, () => {
    const sample = make(kind)
    for (const part of [sample.slice(0, sample.length / 2), sample.slice(sample.length / 2)]) {
      assert.deepEqual(kindsIn(part), [], part)
    }
    const replaced = sample.replace(
      /[\w/+=-]{20,}/g,
      (text) => text.slice(0, 12) + 'x'.repeat(text.length - 12),
    )
    assert.deepEqual(kindsIn(replaced), [], replaced)
  })
}

test('random characters that spell a short word of placeholders are a credential', () => {
  const random =
    'tEFG0ZoteHOyGDwm4w-lywtZz8nCwEYTC_a-J6ao5LP7Ahy_DdyWbK-56lo0TjCBmwe7p1YnyouR_guxRX9waVF5qI16LQG'
  assert.deepEqual(kindsIn(`hvs.${random}`), ['HashiCorp Vault token'])
  assert.deepEqual(kindsIn(`hvs.your_${random}`), [])
})

test('a token with a wrong checksum is none', () => {
  for (const kind of ['svc token', 'GitHub token', 'npm token']) {
    const sample = make(kind)
    const other = sample.endsWith('0') ? '1' : '0'
    assert.deepEqual(kindsIn(sample.slice(0, -1) + other), [])
  }
})

test('the id of an AWS key is found only beside a secret key, and documented ones never', () => {
  const { id, secret } = newAwsKey()
  assert.deepEqual(kindsIn(id), [])
  assert.deepEqual(kindsIn(secret), [])
  assert.deepEqual(kindsIn(`${secret}${'\n'.repeat(500)}${id}`), ['AWS access key'])
  assert.deepEqual(kindsIn(`${id}${'\n'.repeat(700)}${secret}`), [])
  for (const before of ['', 'a'.repeat(3000), `${'b'.repeat(40)} `, `${id} ${'-'.repeat(3000)}`]) {
    for (let gap = 555; gap < 565; gap++) {
      const found = kindsIn(`${before}\n${secret}${'\n'.repeat(gap)}${id}`)
      assert.deepEqual(found, gap > 560 ? [] : ['AWS access key'], `${before} ${gap}`)
      assert.deepEqual(kindsIn(`${before}${id}/${'\n'.repeat(gap)}x${secret}`), [])
    }
  }
  assert.deepEqual(kindsIn(`${id} ${'0123456789abcdef'.repeat(3).slice(0, 40)}`), [])
  const example = ['AKIAIOSFODNN7', 'wJalrXUtnFEMI/K7MDENG/bPxRfiCY', 'KEY'].join('EXAMPLE ')
  assert.deepEqual(kindsIn(example.replace('EXAMPLE KEY', 'EXAMPLEKEY')), [])
})

test('the published key of the Azure storage emulator is let through', () => {
  const parts = [
    ['Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq'],
    ['K1SZFPTOtr', 'KBHBeksoGMGw=='].join('/'),
  ]
  assert.deepEqual(kindsIn(`AccountKey=${parts.join('/')}`), [])
})

describe('private keys', () => {
  const pem = newPem()
  const lines = pem.trim().split('\n')

  test('are found indented, quoted, commented, escaped and with either line ending', () => {
    for (const text of [
      pem.replaceAll('\n', '\r\n'),
      pem.replaceAll('\n', '\r'),
      pem.replaceAll('\n', '\\n'),
      lines.map((line) => `      ${line}`).join('\n'),
      lines.map((line) => `# ${line}`).join('\n'),
      lines.map((line) => `  "${line}\\n" +`).join('\n'),
      `key: |\n${lines.map((line) => `\t${line}`).join('\n')}`,
      `KEY='${lines.join('')}'`,
      `KEY=${lines.join(' ')}`,
      lines.map((line) => `+${line}`).join('\n'),
      lines.map((line) => `// ${line}`).join('\n'),
    ]) {
      assert.deepEqual(kindsIn(text), ['private key'], text)
    }
  })

  test('a header alone, in documentation or with dots for the key, is none', () => {
    const [begin = '', , , end = ''] = lines
    for (const text of [
      begin,
      `${begin}\n...\n${end}`,
      `${begin}\nMIIEpAIBAAKCAQEA...\n${end}`,
      `${begin}\n${'A'.repeat(64)}\n${end}`,
      `Look for "${begin}" in the file.`,
      `${begin.replace('PRIVATE KEY', 'PGP PRIVATE KEY BLOCK')} is how an armored private key begins in a file`,
      newPem().replace(/PRIVATE/g, 'PUBLIC'),
    ]) {
      assert.deepEqual(kindsIn(text), [], text)
    }
  })

  test('an OpenSSH key is found, with a passphrase, too', () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-test-'))
    using _ = { [Symbol.dispose]: () => rmSync(folder, { recursive: true }) }
    for (const passphrase of ['', 'secret']) {
      const path = join(folder, `key${passphrase}`)
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', passphrase, '-f', path])
      assert.deepEqual(kindsIn(readFileSync(path)), ['OpenSSH private key'])
      assert.deepEqual(kindsIn(readFileSync(`${path}.pub`)), [])
    }
  })

  test('a key of PuTTY without its private lines is none', () => {
    assert.deepEqual(kindsIn(newPuttyKey().replace(/Private-Lines: 2/, 'Private-Lines: 0')), [])
  })
})

describe('encodings', () => {
  const token = newTokenString()

  test('UTF-16 is read in either byte order, with and without a mark', () => {
    const text = `line\r\nTOKEN=${token}\r\n`
    const little = Buffer.from(text, 'utf16le')
    const marked = Buffer.from(`\ufeff${text}`, 'utf16le')
    for (const content of [
      little,
      marked,
      Buffer.from(little).swap16(),
      Buffer.from(marked).swap16(),
    ]) {
      assert.deepEqual(scanText(content), [{ kind: 'svc token', secret: token, line: 2 }])
    }
  })

  test('UTF-16 without a mark is read behind characters that are not ASCII, and its lines are counted', () => {
    // U+4E0A has the byte of a line end, U+3000 a zero in the other place.
    const others = `${'上海\u3000'.repeat(1500)}\n`
    const marked = Buffer.from(`\ufeff${others}TOKEN=${token}\n`, 'utf16le')
    const expected = [{ kind: 'svc token', secret: token, line: 2 }]
    assert.deepEqual(scanText(marked), expected)
    assert.deepEqual(scanText(Buffer.from(marked).swap16()), expected)
    for (const content of [marked.subarray(2), Buffer.from(marked.subarray(2)).swap16()])
      assert.deepEqual(kindsIn(content), ['svc token'])
  })

  test('UTF-32 is read in either byte order, with and without a mark, and its lines are counted', () => {
    const toUtf32 = (text: string, isBig: boolean) =>
      Buffer.concat(
        [...text].map((character) => {
          const unit = Buffer.alloc(4)
          const code = character.codePointAt(0) ?? 0
          if (isBig) unit.writeUInt32BE(code)
          else unit.writeUInt32LE(code)
          return unit
        }),
      )
    const text = `line\r\nTOKEN=${token}\r\n`
    const behindOthers = `${'上\u010a\u{1f600}'.repeat(2000)}\nTOKEN=${token}\n`
    for (const isBig of [false, true]) {
      for (const written of [text, `\ufeff${text}`, behindOthers, `\ufeff${behindOthers}`])
        assert.deepEqual(scanText(toUtf32(written, isBig)), [
          { kind: 'svc token', secret: token, line: 2 },
        ])
      const code = Buffer.from(Array.from({ length: 5000 }, (_, index) => (index * 7919) & 0xff))
      const part = toUtf32(`TOKEN=${token}`, isBig)
      assert.deepEqual(kindsIn(Buffer.concat([code, part, code])), ['svc token'])
    }
  })

  test('programs are read for both ASCII and UTF-16', () => {
    const npm = make('npm token')
    const wide = Buffer.from(`TOKEN=${token}`, 'utf16le')
    const code = Buffer.from(Array.from({ length: 5000 }, (_, index) => (index * 7919) & 0xff))
    for (const shift of [0, 1]) {
      const parts = [code, Buffer.alloc(shift), Buffer.from(npm), Buffer.alloc(1), wide, code]
      assert.deepEqual(kindsIn(Buffer.concat(parts)).sort(), ['npm token', 'svc token'])
    }
    for (const mark of ['\xff\xfe', '\xfe\xff', 'a\0'.repeat(4000)])
      assert.deepEqual(kindsIn(Buffer.from(`${mark}${npm}`, 'latin1')), ['npm token'])
  })

  test('binary files are scanned, too', () => {
    const content = Buffer.concat([Buffer.from([0, 1, 2, 0xff]), Buffer.from(`\0${token}\0\0`)])
    assert.deepEqual(kindsIn(content), ['svc token'])
  })

  test('lines are counted', () => {
    const text = `${'é\n'.repeat(5)}${make('npm token')} ${token}\r\n${token}\n`
    assert.deepEqual(
      scanText(Buffer.from(text)).map(({ line }) => line),
      [6, 6],
    )
  })
})

test('each credential in any text is found, wherever it is', exhaustive, () => {
  const kind = fc.constantFrom(...kinds.filter((name) => name !== 'AWS access key'))
  const text = fc.string({ unit: character, maxLength: 300 }).map((other) => `${other}\n`)
  fc.assert(
    fc.property(text, kind, text, (before, name, after) => {
      assert.deepEqual(kindsIn(`${before}${make(name)}\n${after}`), [name])
    }),
  )
})

test('any bytes are scanned without an error', () => {
  const prefixes = leakRules.flatMap((rule) => rule.prefixes)
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
    fc.constantFrom(...prefixes, '\n', '\0', 'PRIVATE KEY-----\n').map((text) => Buffer.from(text)),
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 50 }), (pieces) => {
      scanText(Buffer.concat(pieces))
    }),
  )
})

test('a hostile text is scanned in short steps', () => {
  const text = `-----BEGIN PRIVATE KEY-----${'\\n'.repeat(7000)}`
  let steps = 1
  for (const scan = scanInSteps(Buffer.from(text.repeat(200))); !scan.next().done; ) steps++
  assert.ok(steps >= 5, `${steps} steps`)
})

test('what is found does not keep the text in memory', () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage: () => void = runInNewContext('gc')
  const heapBytes = () => {
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  // Node stores strings of 1 MiB outside the heap.
  const text = `${newTokenString()}\n${newPem()}${'text '.repeat(180_000)}`
  const before = heapBytes()
  const found = Array.from({ length: 60 }, () => scanText(Buffer.from(text)))
  const grown = heapBytes() - before
  assert.ok(grown < 20_000_000, `${grown} bytes`)
  for (const { secret } of found.flat()) assert.ok(secret.length <= 128)
})

test('real text has none: the files of this repository and of its dependencies', () => {
  const own = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' }).split('\0')
  const others = globSync('node_modules/**/*.{js,ts,json,md,mjs,cjs}', { cwd: root })
  const sample = [...own.filter((path) => path !== ''), ...others.filter((_, n) => n % 5 === 0)]
  let bytes = 0
  for (const path of sample) {
    const stat = statSync(join(root, path), { throwIfNoEntry: false })
    if (!stat?.isFile() || stat.size > 1024 * 1024) continue
    bytes += stat.size
    const found = scanText(readFileSync(join(root, path)))
    assert.deepEqual(
      found.map(({ kind, line }) => ({ kind, line })),
      [],
      path,
    )
  }
  assert.ok(bytes > 10_000_000, String(bytes))
})
