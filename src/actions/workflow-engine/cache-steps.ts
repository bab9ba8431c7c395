import { createHash } from 'node:crypto'
import { ArchiveError, cacheLayout, packFiles, unpackFiles } from './archives.ts'
import { findFiles } from './find-files.ts'
import { type PathPatterns, readPathPatterns } from './path-patterns.ts'
import { addPostStep } from './post-steps.ts'
import type { FoundCache } from './run-storage.ts'
import { ended, type StepEnd, toFault } from './step-end.ts'
import {
  flagOf,
  inputLines,
  inputOf,
  logLine,
  type StorageContext,
  toMegabytes,
  warn,
  warnOfElsewhere,
  warnOfLeadingOut,
  withinTime,
} from './storage-step.ts'

const maxKeys = 10
const keyMaxLength = 512

type Outputs = Record<string, string>

/** `actions/cache`: restores a cache, and saves one after the steps of a successful job. */
export async function runCache(context: StorageContext): Promise<StepEnd> {
  const { running, list, planned, step } = context
  const found: { key: string } = { key: '' }
  await addPostStep(running, {
    key: planned,
    name: `Post ${context.name}`,
    step,
    list,
    condition: { text: 'success()', position: step.position },
    run: (hook) =>
      withinTime({ ...context, ...hook }, async (signal) => {
        const post = { ...context, ...hook, signal }
        const key = inputOf(context, 'key')
        if (found.key !== key) await saveCache(post)
        else await logLine(post, `The cache was restored by its key ${key}: it is not saved again.`)
        return ended('success')
      }),
  })
  const outputs = await restoreCache(context)
  found.key = outputs['cache-matched-key'] ?? ''
  return ended('success', { outputs })
}

/** `actions/cache/restore` */
export async function runCacheRestore(context: StorageContext): Promise<StepEnd> {
  return ended('success', { outputs: await restoreCache(context) })
}

/** `actions/cache/save` */
export async function runCacheSave(context: StorageContext): Promise<StepEnd> {
  await saveCache(context)
  return ended('success')
}

async function restoreCache(context: StorageContext): Promise<Outputs> {
  const { storage, signal } = context
  const keys = keysOf(context)
  const [primary = ''] = keys
  const lookupOnly = flagOf(context, 'lookup-only')
  const mustHit = flagOf(context, 'fail-on-cache-miss')
  const outputs: Outputs = { 'cache-primary-key': primary }
  const found = await storage
    .findCache({ keys, version: versionOf(context), lookupOnly, signal })
    .then((cache) => cache && (lookupOnly ? cache : unpack(context, cache)))
    .catch((error) => failSoftly(context, error, 'The cache could not be restored'))
  if (!found) {
    if (mustHit) throw new ArchiveError(`There is no cache for ${keys.join(', ')}.`)
    await logLine(context, `There is no cache for ${keys.join(', ')}.`)
    return outputs
  }
  await logLine(context, `${lookupOnly ? 'Found the cache' : 'Restored the cache'} ${found.key}.`)
  outputs['cache-hit'] = String(found.key === primary)
  outputs['cache-matched-key'] = found.key
  return outputs
}

async function unpack(context: StorageContext, cache: FoundCache): Promise<FoundCache> {
  const { content } = cache
  if (!content) return cache
  const startedAt = performance.now()
  const layout = cacheLayout(context.running, 'unpack')
  const bytes = await unpackFiles({ ...context, ...layout, content })
  await logLine(context, `Unpacked ${toMegabytes(bytes)} in ${secondsSince(startedAt)} s.`)
  return cache
}

/** Saves a cache. Like on GitHub, a failure is a warning. */
async function saveCache(context: StorageContext): Promise<void> {
  const [key = ''] = keysOf(context)
  try {
    await trySaving(context, key)
  } catch (error) {
    await failSoftly(context, error, 'The cache could not be saved')
  }
}

async function trySaving(context: StorageContext, key: string): Promise<void> {
  const { storage, signal, running } = context
  const version = versionOf(context)
  const known = await storage.findCache({ keys: [key], version, lookupOnly: true, signal })
  if (known?.key === key) {
    return logLine(context, `There is a cache with the key ${key} already, which is not replaced.`)
  }
  const patterns = readPathPatterns(inputOf(context, 'path'), running.workspace.inside)
  await warnOfElsewhere(context, patterns)
  const files = await filesOf(context, patterns)
  if (files.length === 0) {
    return warn(context, 'None of the paths exists, so there is nothing to save.')
  }
  const startedAt = performance.now()
  const { folder, options } = cacheLayout(running, 'pack')
  const { result, bytes } = await packFiles(
    {
      ...context,
      folder,
      options: [...options, ...(patterns.isLiteral ? [] : ['--no-recursion'])],
      files: files.map((path) => path.slice(folder === '/' ? 1 : folder.length + 1)),
    },
    (content) => storage.saveCache({ key, version, content, signal }),
  )
  await logLine(
    context,
    result === 'exists'
      ? `There is a cache with the key ${key} already, which is not replaced.`
      : `Saved ${toMegabytes(bytes)} of files as the cache ${key} in ${secondsSince(startedAt)} s.`,
  )
}

async function filesOf(context: StorageContext, patterns: PathPatterns): Promise<string[]> {
  const { found, leadingOut } = await findFiles({ ...context, patterns, followLinks: false })
  await warnOfLeadingOut(context, leadingOut)
  return found.map(({ path }) => path)
}

/** A warning, unless the step is to end. */
async function failSoftly(
  context: StorageContext,
  error: unknown,
  what: string,
): Promise<undefined> {
  context.signal.throwIfAborted()
  await warn(context, `${what}: ${toFault(error)}`)
}

function keysOf(context: StorageContext): string[] {
  const keys = [inputOf(context, 'key'), ...inputLines(context, 'restore-keys')]
  if (keys.length > maxKeys) throw new ArchiveError(`There are more than ${maxKeys} keys.`)
  for (const key of keys) {
    if (key === '') throw new ArchiveError('The key of the cache is empty.')
    if (key.length > keyMaxLength || key.includes(',')) {
      const rule = `at most ${keyMaxLength} characters and no comma`
      throw new ArchiveError(`The key ${key} is not valid: a key has ${rule}.`)
    }
  }
  return keys
}

/** Caches of other paths do not fit. */
function versionOf(context: StorageContext): string {
  return createHash('sha256')
    .update(JSON.stringify(['tar.zst 1', ...inputLines(context, 'path')]))
    .digest('hex')
}

function secondsSince(startedAt: number): string {
  return ((performance.now() - startedAt) / 1000).toFixed(1)
}
