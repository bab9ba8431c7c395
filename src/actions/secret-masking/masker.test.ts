import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { createMasker } from './masker.ts'

const secret = `pa$s w"o'rd/&<é>+\\ü~(1)!*`

const assertHidden = (value: string, written: string, shown = '[***]') => {
  assert.equal(createMasker([value]).mask(`[${written}]`), shown, written)
}

test('a value is masked at any position', () => {
  const { mask } = createMasker(['hunter2'])
  assert.equal(mask('a hunter2, xhunter2y hunter2hunter2'), 'a ***, x***y ******')
  assert.equal(mask('hunte hunter Hunter2'), 'hunte hunter Hunter2')
  assert.equal(mask(''), '')
})

test('the forms in which programs write a value are masked', () => {
  const json = JSON.stringify(secret).slice(1, -1)
  const percent = encodeURIComponent(secret)
  const strict = percent.replaceAll(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  const lower = percent.replaceAll(/%../g, (code) => code.toLowerCase())
  const plus = percent.replaceAll('%20', '+')
  const form = new URLSearchParams({ v: secret }).toString().slice(2)
  const ascii = json.replaceAll('é', '\\u00e9').replaceAll('ü', '\\u00fc')
  const go = json.replaceAll('&', '\\u0026').replaceAll('<', '\\u003c').replaceAll('>', '\\u003e')
  const php = ascii.replaceAll('/', '\\/')
  const twice = JSON.stringify(json).slice(1, -1)
  const shell = secret.replaceAll("'", "'\\''")
  const hex = Buffer.from(secret).toString('hex')
  const xml = secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  const forms = [secret, json, percent, strict, lower, plus, form, ascii, go, php, twice, shell]
  for (const written of [...forms, hex, hex.toUpperCase(), xml.replaceAll('"', '&quot;')]) {
    assertHidden(secret, written)
  }
})

test('a value is masked however its quotation marks are written in HTML', () => {
  const escaped = secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  const written = ['"', '&quot;', '&#34;'].flatMap((double) =>
    ["'", '&#39;', '&#x27;', '&#039;', '&apos;'].map((single) => [double, single] as const),
  )
  // Go and Python alone write `&#34;`, and a bare double quotation mark comes with bare single ones.
  const usual = written.filter(
    ([double, single]) => single === (double === '"' ? "'" : '&#39;') || double === '&quot;',
  )
  for (const [double, single] of usual) {
    assertHidden(secret, escaped.replaceAll('"', double).replaceAll("'", single))
  }
  const mustache = escaped.replaceAll('"', '&quot;').replaceAll("'", '&#39;')
  assertHidden(secret, mustache.replaceAll('/', '&#x2F;'))
})

test('a value of several lines is masked in the texts of shells and programming languages', () => {
  const value = `it's\tone\\two "three"\r\nfour$five`
  const run = (command: string) =>
    execFileSync('bash', ['-c', command], { env: { ...process.env, V: value } }).toString()
  for (const command of ['printf %q "$V"', 'set -x; : "$V"', 'declare -p V | cut -d= -f2-']) {
    const written = run(`(${command}) 2>&1`)
    assert.match(createMasker([value]).mask(written), /^(\+ : )?\$?['"]\*\*\*['"]\n?$/, written)
  }
  for (const text of [value, value.replaceAll('"', ''), value.replaceAll("'", '')]) {
    assert.match(createMasker([text]).mask(inspect(text)), /^(['"`])\*\*\*\1$/, inspect(text))
  }
})

test('hexadecimal digits are masked with spaces and colons, and in lines', () => {
  const long = createHash('sha512').update('a').digest('base64').repeat(3)
  for (const value of [secret, long, `${secret}€`]) {
    const digits = Buffer.from(value).toString('hex')
    const pairs = digits.match(/../g) ?? []
    const lines = digits.match(/.{1,60}/g) ?? []
    for (const written of [pairs.join(' '), pairs.join(':'), lines.join('\n')]) {
      assertHidden(value, written)
      assertHidden(value, written.toUpperCase())
    }
  }
})

test('the output of real programs is masked', () => {
  const run = (command: string) =>
    execFileSync('bash', ['-c', command], {
      env: { ...process.env, LC_ALL: 'C.UTF-8', SECRET: secret },
    }).toString()
  const commands = [
    'printf %s "$SECRET"',
    'printf %s "$SECRET" | base64 -w0',
    'echo "$SECRET" | base64 -w0',
    'printf %s "$SECRET" | od -An -v -tx1 | tr -d " \\n"',
    '(set -x; : "$SECRET") 2>&1 | cut -d"\'" -f2-',
    'printf %q "$SECRET"',
  ]
  for (const command of commands) {
    const masked = createMasker([secret]).mask(run(command))
    assert.match(masked, /^'?(\+ : ')?\*\*\*'?\n?$/, `${command}: ${masked}`)
  }
})

test('base64 is masked at all three alignments, in both alphabets, up to the last certain character', () => {
  for (const length of [8, 9, 10, 11]) {
    const value = '~?>~?>~?>~?'.slice(0, length)
    for (const before of ['', 'x', 'xy', 'xyz']) {
      for (const after of ['', '\n', '::', ':::']) {
        const bytes = Buffer.from(`${before}${value}${after}`)
        for (const alphabet of ['base64', 'base64url'] as const) {
          const encoded = bytes.toString(alphabet)
          const masked = createMasker([value]).mask(encoded)
          // What is left are the neighbours, and a character on each side that holds some of both.
          const left = masked.replace('***', '').replaceAll('=', '')
          const own = Math.ceil((before.length * 8) / 6) + Math.ceil((after.length * 8) / 6) + 1
          assert.ok(masked.includes('***'), encoded)
          assert.ok(left.length <= own, `${encoded} is shown as ${masked}`)
        }
      }
    }
  }
})

test('base64 in lines is masked', () => {
  const value = createHash('sha512').update('a').digest('base64').repeat(3)
  for (const width of [76, 64]) {
    for (const content of [value, `${value}\n`]) {
      const encoded = Buffer.from(content).toString('base64')
      const lines = encoded.match(new RegExp(`.{1,${width}}`, 'g')) ?? []
      assertHidden(value, lines.join('\n'))
    }
  }
})

test('white space around a value is not masked', () => {
  const { mask, finds } = createMasker(['  hunter2\n', ' \n\t'])
  assert.equal(mask('hunter2\nnext'), '***\nnext')
  assert.equal(mask('  hunter2\n'), '  ***\n')
  assert.equal(finds(' \n\t'), false)
})

test('the lines of a value are masked, except trivial ones', () => {
  const value = '{\n  "user": "me",\n  "id": "a1"\n}\r\nabc\n]]]]]]\n-----BEGIN KEY-----\nMIIabc\n'
  const { mask } = createMasker([value])
  assert.equal(mask('x MIIabc y\n  "user": "me",'), 'x *** y\n  ***')
  assert.equal(mask('{ } abc ]]]]]] -----'), '{ } abc ]]]]]] -----')
  assert.equal(mask(value.trim()), '***')
})

test('a value in quotation marks is masked without them', () => {
  assert.equal(createMasker(['"hunter2"']).mask('hunter2 "hunter2"'), '*** ***')
})

test('a short value is masked only as a whole word', () => {
  const { mask } = createMasker(['1', 'ab', '+-'])
  assert.equal(mask('1 11 a1 (1) ab,1 abc _ab MQ=='), '*** 11 a1 (***) ***,*** abc _ab MQ==')
  assert.equal(mask('+- a+- é1 61'), '*** a+- é1 61')
  assert.equal(createMasker(['é']).mask('é éa'), '*** éa')
})

test('overlapping values are masked as one, nested ones by the longest', () => {
  const { mask } = createMasker(['abcdef', 'defghi', 'cdef', 'abcdefgh', 'abcd', '', 'abcdef'])
  assert.equal(mask('abcdef'), '***')
  assert.equal(mask('abcdefghi'), '***')
  assert.equal(mask('xcdefghiy'), 'x***y')
  assert.equal(mask('abcdabcd'), '******')
  assert.equal(mask('abcdefg'), '***g')
  assert.equal(createMasker(['aaaa']).mask('baaaaaaaaab'), 'b***b')
})

test('a value that is added is masked from then on', () => {
  const masker = createMasker([])
  const stream = masker.stream()
  const before = stream.push(Buffer.from('hunter2 '))
  masker.add('hunter2')
  masker.add('')
  const after = stream.push(Buffer.from('hunter2 '))
  assert.equal(`${before}${after}${stream.end()}`, 'hunter2 *** ')
  assert.equal(masker.mask('hunter2'), '***')
})

test('finds returns whether anything would be masked', () => {
  const { finds } = createMasker(['hunter2'])
  assert.equal(finds('a hunter2'), true)
  assert.equal(finds(Buffer.from('x:hunter2').toString('base64')), true)
  assert.equal(finds('a hunter'), false)
})

test('a text without secrets is unchanged, lone surrogates included', () => {
  const { mask } = createMasker(['hunter2'])
  assert.equal(mask('a\ud800b'), 'a\ud800b')
  assert.equal(mask('*** é \u0000'), '*** é \u0000')
})

test('a lone surrogate in a value is harmless', () => {
  assert.equal(createMasker(['hunt\ud800er']).mask('hunt\ufffder'), '***')
  assert.equal(createMasker([`${'a'.repeat(2000)}\ud800`]).mask('b'), 'b')
})

test('the number of values is limited', () => {
  const masker = createMasker(['hunter2'])
  for (let number = 0; number < 1000; number++) masker.add(`value ${number}`)
  masker.add('value 0')
  assert.throws(() => masker.add('one more'), /More than 1000 values/)
  assert.throws(() => createMasker([]).add('x'.repeat(300_000)), /262144 characters cannot/)
  assert.equal(masker.mask('value 999'), '***')
})
