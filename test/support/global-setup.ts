import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { offerCeph } from './object-store.ts'
import { type Postgres, startPostgres } from './postgres.ts'
import { mayNotSkip, missingPrograms } from './programs.ts'

const execute = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))
const programs = ['main', 'server', 'ssh-main', 'spawn-helper-main', 'runner-main']

let postgres: Postgres | undefined
let ceph: Awaited<ReturnType<typeof offerCeph>> | undefined

/** Runs once before all test files: starts what they share. */
export async function globalSetup(): Promise<void> {
  const missing = missingPrograms()
  if (mayNotSkip && missing.length > 0) {
    const list = missing.map(({ name, install }) => `${name} (${install})`).join(', ')
    throw new Error(`Nothing may be skipped, but these are missing: ${list}`)
  }
  ceph = await offerCeph()
  const warm = warmCompileCaches()
  postgres = await startPostgres()
  await warm
  if (postgres) process.env.SVC_TEST_DATABASE_URL = postgres.url
}

/**
 * Gives test processes a compile cache, and renews that of bin/svc: it is written at a clean exit, and most servers of tests
 * are killed. Compiling is half of what the start of a process costs.
 */
async function warmCompileCaches(): Promise<void> {
  process.env.NODE_COMPILE_CACHE = `${root}node_modules/.cache/svc-test`
  const env = { ...process.env, NODE_COMPILE_CACHE: `${root}node_modules/.cache/svc` }
  for (const program of programs) {
    const started = execute(process.execPath, [`${root}src/${program}.ts`, '--version'], { env })
    started.child.stdin?.end()
    await started
  }
}

/** Runs once after all test files. */
export async function globalTeardown(): Promise<void> {
  postgres?.stop()
  await ceph?.stop()
  for (const { name, install } of missingPrograms()) {
    process.stdout.write(`Tests that need ${name} were skipped; to run them: ${install}\n`)
  }
}
