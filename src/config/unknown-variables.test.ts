import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Setting } from './setting.ts'
import { readSettings, SettingsError } from './settings.ts'
import { settings } from './settings-table.ts'
import { unknownVariables } from './unknown-variables.ts'

const table: Setting<unknown>[] = Object.values(settings)
const variables = table.map(({ variable }) => variable)
const letter = fc.constantFrom(...'ABCDEFGHIJKLMNOPQRSTUVWXYZ_')

const slips: ((text: string, at: number, letter: string) => string)[] = [
  (text, at) => text.slice(0, at) + text.slice(at + 1),
  (text, at, added) => text.slice(0, at) + added + text.slice(at),
  (text, at, other) => text.slice(0, at) + other + text.slice(at + 1),
  (text, at) => text.slice(0, at) + (text[at + 1] ?? '') + (text[at] ?? '') + text.slice(at + 2),
]

test('a misspelt setting stops the start and is named', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...variables),
      fc.constantFrom(...slips),
      fc.nat(),
      letter,
      (variable, slip, place, added) => {
        const word = variable.slice('SVC_'.length)
        const name = `SVC_${slip(word, place % word.length, added)}`
        fc.pre(!variables.includes(name))
        const [unknown] = unknownVariables({ [name]: '1' })
        // It may be as close to another one.
        assert.ok(unknown?.meant && variables.includes(unknown.meant), `${name} for ${variable}`)
        assert.throws(
          () => readSettings({ [name]: '1' }),
          (error) => error instanceof SettingsError && error.message.startsWith(`${name}: `),
        )
      },
    ),
    { numRuns: 100 },
  )
  for (const [name, meant] of [
    ['SVC_DATADIR', 'SVC_DATA_DIR'],
    ['SVC_DATABASE_URI', 'SVC_DATABASE_URL'],
    ['SVC_OUTBOUND_ALOW', 'SVC_OUTBOUND_ALLOW'],
    ['SVC_PROT', 'SVC_PORT'],
    ['svc_port', 'SVC_PORT'],
  ] as const)
    assert.equal(unknownVariables({ [name]: '1' })[0]?.meant, meant, name)
})

test('no setting is mistaken for a misspelling of another', () => {
  for (const variable of variables) assert.deepEqual(unknownVariables({ [variable]: 'x' }), [])
})

test('any other name changes nothing and is reported', () => {
  const environment = { SVC_TEST_SEED: '1', SVC_SOMETHING_ELSE: 'x', HOME: '/', SVC_EMPTY: '' }
  readSettings(environment)
  const found = unknownVariables(environment).map(({ name, meant }) => [name, meant])
  assert.deepEqual(found, [
    ['SVC_TEST_SEED', undefined],
    ['SVC_SOMETHING_ELSE', undefined],
  ])
})

test('variables that Kubernetes creates for a Service called svc are recognized', () => {
  const address = 'tcp://10.96.0.10:8080'
  const links = {
    SVC_SERVICE_HOST: '10.96.0.10',
    SVC_SERVICE_PORT: '8080',
    SVC_SERVICE_PORT_HTTP: '8080',
    SVC_PORT_8080_TCP: address,
    SVC_PORT_8080_TCP_PROTO: 'tcp',
    SVC_PORT_8080_TCP_PORT: '8080',
    SVC_PORT_8080_TCP_ADDR: '10.96.0.10',
    // Of a Service called svc-ssk, one letter from a setting.
    SVC_SSK_PORT: address,
  }
  const found = unknownVariables(links)
  assert.deepEqual(
    found.map(({ name, meant }) => [name, meant]),
    Object.keys(links).map((name) => [name, undefined]),
  )
  for (const { message } of found) assert.match(message, /Kubernetes .* enableServiceLinks: false/)
  readSettings(links)
  // This one is a setting, so its value is not accepted.
  assert.throws(
    () => readSettings({ SVC_PORT: address }),
    /^SettingsError: SVC_PORT: "tcp:\/\/.*Kubernetes .* enableServiceLinks: false/,
  )
})

test('a setting in the wrong number (singular, plural) is a misspelling', () => {
  for (const [name, meant] of [
    ['SVC_TRUSTED_PROXY', 'SVC_TRUSTED_PROXIES'],
    ['SVC_PORTS', 'SVC_PORT'],
  ] as const) {
    assert.equal(unknownVariables({ [name]: '1' })[0]?.meant, meant)
  }
})
