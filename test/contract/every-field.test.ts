// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { FieldError } from '#base/problem.ts'
import { Problem } from '#base/problem.ts'
import type { JsonRoute } from '#http/route.ts'
import { checkBody, checkQuery } from '#http/validation.ts'
import { startInProcess } from '../support/in-process.ts'

const service = await startInProcess()
const routes = service.routes.filter((route): route is JsonRoute => route.kind === 'json')
after(() => service[Symbol.asyncDispose]())

/** A field of a body or a parameter of a query; its schema as plain JSON Schema. */
type Field = { schema: Schema; place: string; wrap: (value: unknown) => object }

type Schema = {
  type?: string | string[]
  description?: string
  pattern?: string
  'x-form'?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  items?: Schema
  [keyword: string]: unknown
}

/** The fields of an object, and those within them, other than the branches of unions. */
function fieldsIn(schema: Schema, place: string, wrap: Field['wrap']): Field[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) =>
    withInner({
      schema: field,
      place: `${place}/${name}`,
      wrap: (value) => wrap({ [name]: value }),
    }),
  )
}

function withInner(field: Field): Field[] {
  const { schema, place, wrap } = field
  const item = schema.items && {
    schema: schema.items,
    place: `${place}/0`,
    wrap: (value: unknown) => wrap([value]),
  }
  return [field, ...fieldsIn(schema, place, wrap), ...(item ? withInner(item) : [])]
}

const parametersOf = (route: JsonRoute) => Object.entries(Object(route.query).properties ?? {})

function errorsOf(act: () => unknown): FieldError[] {
  try {
    act()
  } catch (error) {
    assert.ok(error instanceof Problem && error.errors)
    return error.errors
  }
  return []
}

/** Values of every type, within no bounds. */
const values = [
  null,
  true,
  -1.5,
  1e15,
  '',
  'no such name \n',
  '\0',
  'x'.repeat(70_000),
  [],
  Array(900).fill('x'),
  {},
]

/** What a sentence must say of a schema: derived from the keywords, not from the code that makes the sentence. */
function wordsFor(schema: Schema): string[] {
  if (schema['x-form'] !== undefined) return [schema['x-form']]
  if (schema.anyOf) return schema.anyOf.flatMap(wordsFor)
  if (schema.const !== undefined) return [String(schema.const)]
  if (schema.enum) return schema.enum.map(String)
  const types = [schema.type].flat()
  const bounds = Object.entries(schema)
    .filter(([keyword, value]) => /^(min|max)/.test(keyword) && Number(value) > 0)
    .map(([, value]) => String(value))
  const words = types.flatMap((type) => (type === 'boolean' ? ['true or false'] : [String(type)]))
  const inner = schema.items ? wordsFor(schema.items) : []
  return [...words, ...bounds, ...inner, ...Object.keys(schema.properties ?? {})]
}

function assertSaysWhatIsAccepted(schema: Schema, detail: string, name: string): void {
  for (const word of wordsFor(schema)) assert.ok(detail.includes(word), `${name}: ${detail}`)
  assert.match(detail, /must /, name)
  assert.doesNotMatch(detail, /is not accepted|NOT|undefined|\[object/, name)
  const { description = '', pattern = '' } = schema
  const isPurpose = description !== '' && !schema['x-form']?.includes(description) && !schema.enum
  if (isPurpose) assert.ok(!detail.includes(description), `${name}: ${detail}`)
  assert.ok(pattern === '' || !detail.includes(pattern), `${name}: ${detail}`)
}

test('every field of every body says which values it accepts, by its pointer', () => {
  let fields = 0
  for (const { operationId, body } of routes) {
    for (const { schema, place, wrap } of fieldsIn(Object(body), '', (value) => Object(value))) {
      const name = `${operationId} ${place}`
      assert.ok(
        schema.pattern === undefined || schema['x-form'],
        `${name} has no words for its pattern`,
      )
      const refused = values.filter((value) => {
        const error = errorsOf(() => checkBody(body, wrap(value))).find(
          ({ pointer }) => pointer === place,
        )
        if (error) assertSaysWhatIsAccepted(schema, error.detail, name)
        const isName = schema.pattern !== undefined || schema.enum !== undefined
        if (error && isName && typeof value === 'string' && value.length < 100)
          assert.ok(error.detail.includes(JSON.stringify(value)), `${name}: ${error.detail}`)
        return error !== undefined
      })
      assert.ok(refused.length > 2, `${name} accepts nearly everything`)
      fields++
    }
  }
  assert.ok(fields > 100, String(fields))
})

test('every required field and every unknown one is named, with what is accepted', () => {
  for (const { operationId, body } of routes) {
    if (!body) continue
    const { properties = {}, required = [], minProperties } = Object(body)
    const errors = errorsOf(() => checkBody(body, { 'no such': 1 }))
    for (const name of required) {
      const detail = errors.find(({ pointer }) => pointer === `/${name}`)?.detail ?? ''
      assert.match(detail, /^is required; it must be /, operationId)
      assertSaysWhatIsAccepted(properties[name], detail, `${operationId} ${name}`)
    }
    const unknown = errors.find(({ pointer }) => pointer === '/no such')?.detail ?? ''
    for (const name of Object.keys(properties)) assert.ok(unknown.includes(name), operationId)
    if (minProperties === undefined) continue
    const [empty] = errorsOf(() => checkBody(body, {}))
    for (const name of Object.keys(properties))
      assert.ok(empty?.detail.includes(name), `${operationId}: ${empty?.detail}`)
  }
})

test('every parameter of every query is called one, and says which values it accepts', () => {
  let parameters = 0
  for (const route of routes) {
    for (const [name, schema] of parametersOf(route) as [string, Schema][]) {
      const label = `${route.operationId} ?${name}`
      assert.ok(
        schema.pattern === undefined || schema['x-form'],
        `${label} has no words for its pattern`,
      )
      for (const value of ['', 'no such \n\0', 'x'.repeat(70_000), '-1', '1e99']) {
        const query = new URLSearchParams([[name, value]])
        const error = errorsOf(() => checkQuery(route.query, query)).find(
          (one) => one.pointer === undefined && one.parameter === name,
        )
        if (error) assertSaysWhatIsAccepted(schema, error.detail, label)
      }
      const twice = new URLSearchParams([name, name].map((one) => [one, '1']))
      const repeated = errorsOf(() => checkQuery(route.query, twice)).find(
        (one) => one.pointer === undefined && one.parameter === name,
      )
      if (!schema.anyOf) assert.equal(repeated?.detail, 'is given more than once.', label)
      parameters++
    }
    const unknown = new URLSearchParams({ 'no such': '1' })
    const errors = errorsOf(() => checkQuery(route.query, unknown))
    assert.ok(
      errors.every(({ pointer }) => pointer === undefined),
      route.operationId,
    )
    const { required = [] } = Object(route.query)
    for (const name of required) {
      const error = errors.find((one) => one.pointer === undefined && one.parameter === name)
      assert.match(error?.detail ?? '', /^is required; it must be /, route.operationId)
    }
  }
  assert.ok(parameters > 60, String(parameters))
})

/** Parameters that take any text, which may match nothing; the cursor of a list by names is one of these, too. */
const freeTexts = new Set([
  ...['author', 'branch', 'cursor', 'filter', 'key', 'name'],
  ...['path', 'q', 'source', 'target', 'username'],
])

test('a parameter that is no id, address, name of a ref or the like is refused, not without matches', async () => {
  await service.admin.post('/repos', { name: 'queries' })
  const commit = { branch: 'main', message: 'x', changes: [{ path: 'a', content: 'a' }] }
  await service.admin.post('/repos/queries/commits', commit)
  let parameters = 0
  for (const route of routes) {
    if (route.method !== 'GET' && route.method !== 'DELETE') continue
    if (/:(?!name\b)|\*/.test(route.path) || route.isLongLived) continue
    for (const [name, schema] of parametersOf(route) as [string, Schema][]) {
      if (schema.type !== 'string' || freeTexts.has(name)) continue
      for (const value of ['zz', '999.1.1.1', 'x y', '-', '*', ':::']) {
        const path = `${route.path.replace(':name', 'queries')}?${new URLSearchParams([[name, value]])}`
        const { status } = await service.admin.call(route.method, path)
        assert.ok(status >= 400, `${route.method} ${path}: ${status}`)
      }
      parameters++
    }
  }
  assert.ok(parameters > 20, String(parameters))
  const addresses = ['203.0.113.9', '2001:DB8::0:1', '::ffff:203.0.113.9']
  for (const address of addresses)
    assert.equal((await service.admin.get(`/audit?address=${address}`)).status, 200, address)
})

test('the detail of a response names fields by pointer, parameters as such, and quotes names', async () => {
  await service.admin.post('/repos', { name: 'site' })
  const bodies: [object, RegExp][] = [
    [{ leakGuard: 'yes' }, /^\/leakGuard must be true or false\.$/],
    [{ runTokens: 'all' }, /^\/runTokens cannot be "all"; it must be read or write\.$/],
    [{ name: 'a b' }, /^\/name cannot be "a b"; it must be 1 to 100 of A-Z/],
    [{ defaultBranch: 'a b' }, /^\/defaultBranch cannot be "a b"; it must be the name of a branch/],
    [{ description: 1 }, /^\/description must be 0 to 350 characters/],
    [{}, /^The body must have at least one of the fields name, description, /],
  ]
  for (const [body, detail] of bodies)
    assert.match((await service.admin.patch('/repos/site', body)).body.detail, detail)
  const paths: [string, RegExp][] = [
    ['/repos?limit=0', /^The query parameter `limit` must be an integer from 1 to 1000\.$/],
    [
      '/repos?size=1',
      /^The query parameter `size` is unknown; this request takes limit, cursor, namespace\.$/,
    ],
    ['/repos/site/tree?path=..', /^The query parameter `path` must be a path within/],
    [
      '/repos/site/pushes?ref=main',
      /^The query parameter `ref` cannot be "main"; it must be the full/,
    ],
    [
      '/repos/site/blame?path=a&start=2&end=1',
      /^The query parameter `start` is 2; it must not be after/,
    ],
    ['/events?after=9999', /^The query parameter `after` is 9999, beyond the end of the log/],
  ]
  for (const [path, detail] of paths)
    assert.match((await service.admin.get(path)).body.detail, detail)
  const secret = await service.admin.put('/repos/site/secrets/A-B', { value: 'x' })
  assert.match(
    secret.body.detail,
    /^The path parameter `secretName` cannot be "A-B"; it must be 1 to/,
  )
  const branch = await service.admin.put('/repos/site/protections/branches/refs%2Fx')
  assert.match(
    branch.body.detail,
    /^The path parameter `branch` cannot be "refs\/x"; it must be a branch/,
  )
})
