// Tags: exhaustive
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Parser } from 'acorn'
import { check } from 'recheck'
import { exhaustive } from '../support/exhaustive.ts'
import { startService } from '../support/service.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Where regular expressions are put together: each is made in the second test, or is of a JSON schema. */
const builders = [
  'src/actions/workflow-parser/reading/cron.ts',
  'src/api/event-log/event-routes.ts',
  'src/base/ids.ts',
  'src/base/object-id.ts',
  'src/git-server/small-packs/proven-connected.ts',
  'src/git-server/upload-pack/cache-key.ts',
  'src/git/objects/commit-object.ts',
  'src/git/process/limit-exceeded.ts',
  'src/git/refs/stored-ref.ts',
]

test('every regular expression takes linear time', exhaustive, async () => {
  const checked = new Set<string>()
  const sources = globSync('src/**/*.ts', { cwd: root }).filter((path) => !/\.test\.ts$/.test(path))
  for (const path of sources) {
    for (const { pattern, flags, line } of literalsIn(path)) {
      if (checked.has(`/${pattern}/${flags}`)) continue
      checked.add(`/${pattern}/${flags}`)
      await assertLinear(pattern, flags, `${path}:${line}`)
    }
  }
  assert.ok(checked.size > 200, `only ${checked.size} were found`)
})

test('every composed regular expression takes linear time', async () => {
  const made = new Map<string, string>()
  const original = globalThis.RegExp
  await using service = await startService()
  const document: unknown = await (await fetch(`${service.url}/openapi.json`)).json()
  globalThis.RegExp = new Proxy(original, {
    construct(target, [pattern, flags = '']) {
      made.set(String(pattern), String(flags))
      return Reflect.construct(target, [pattern, flags])
    },
  })
  try {
    // Loaded anew, so that what they make as they are loaded is seen.
    for (const path of builders) await import(`${root}${path}?made`)
  } finally {
    globalThis.RegExp = original
  }
  const ofSchemas = patternsIn(document)
  assert.ok(made.size > 0 && ofSchemas.length > 0)
  for (const pattern of new Set(ofSchemas)) await assertLinear(pattern, 'u', 'a JSON schema')
  for (const [pattern, flags] of made) await assertLinear(pattern, flags, 'made')
  const found = globSync('src/**/*.ts', { cwd: root })
    .filter((path) => !/\.test\.ts$/.test(path) && /\bRegExp\(/.test(readSource(path)))
    .sort()
  assert.deepEqual(found, builders)
})

/** Limits count steps, not time, so that the answer is the same on every machine. */
const limits = { timeout: null, attackTimeout: null, incubationTimeout: null }

async function assertLinear(pattern: string, flags: string, place: string): Promise<void> {
  // Without repetition the time has a bound, which takes no proof.
  if (!/[*+{]/.test(pattern.replaceAll(/\\[*+{]/g, ''))) return
  const found = await check(pattern, flags, limits)
  if (found.status === 'safe') return
  const why = found.status === 'vulnerable' ? found.attack.pattern.slice(0, 200) : found.status
  assert.fail(`${place}: /${pattern}/${flags} takes more than linear time: ${why}`)
}

function literalsIn(path: string): { pattern: string; flags: string; line: number }[] {
  const found: { pattern: string; flags: string; line: number }[] = []
  Parser.parse(stripTypeScriptTypes(readSource(path)), {
    ecmaVersion: 'latest',
    sourceType: 'module',
    locations: true,
    onToken(token) {
      // Its types leave out what a token holds.
      const { type, value, loc } = token as typeof token & { value: unknown }
      if (type.label !== 'regexp') return
      const { pattern, flags } = value as { pattern: string; flags: string }
      found.push({ pattern, flags, line: loc?.start.line ?? 0 })
    },
  })
  return found
}

function patternsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, part]) =>
    key === 'pattern' && typeof part === 'string' ? [part] : patternsIn(part),
  )
}

function readSource(path: string): string {
  return readFileSync(`${root}/${path}`, 'utf8')
}
