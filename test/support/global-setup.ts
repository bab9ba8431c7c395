import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createTemplate } from './databases.ts'
import { offerCeph, sharedCeph } from './object-store.ts'
import { type Postgres, startPostgres } from './postgres.ts'
import { mayNotSkip, missingPrograms } from './programs.ts'
import { launcher, startService } from './service.ts'
import { writeSharedLauncher } from './shared-launcher.ts'

const execute = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))

let postgres: Postgres | undefined
let sharedLauncher: ReturnType<typeof writeSharedLauncher> | undefined
let ceph: Awaited<ReturnType<typeof offerCeph>> | undefined

/** Runs once before all test files: starts what they share. */
export async function globalSetup(
  hasSharedStore = process.env.SVC_TEST_STORE === 'shared',
): Promise<void> {
  const missing = missingPrograms()
  if (mayNotSkip && missing.length > 0) {
    const list = missing.map(({ name, install }) => `${name} (${install})`).join(', ')
    throw new Error(`Nothing may be skipped, but these are missing: ${list}`)
  }
  ceph = await offerCeph()
  process.env.NODE_COMPILE_CACHE = `${root}node_modules/.cache/svc-test`
  const [started] = await Promise.all([startPostgres(), build()])
  postgres = started
  if (postgres) {
    process.env.SVC_TEST_DATABASE_URL = postgres.url
    process.env.SVC_TEST_DATABASE_TEMPLATE = await createTemplate(postgres.url)
  }
  if (hasSharedStore) await shareStores()
}

/** Lets the tests run over shared stores. */
async function shareStores(): Promise<void> {
  if (!postgres) throw new Error('A shared store needs PostgreSQL.')
  const bucket = process.env.SVC_TEST_S3 ?? (await sharedCeph())
  sharedLauncher = writeSharedLauncher({
    postgres: postgres.url,
    template: process.env.SVC_TEST_DATABASE_TEMPLATE ?? '',
    bucket,
    program: launcher,
  })
  process.env.SVC_TEST_LAUNCHER = sharedLauncher.launcher
}

/** Builds what bin/svc runs if a source has changed, and fills its cache of compiled code, before many tests start it. */
async function build(): Promise<void> {
  await execute(launcher, ['--version'])
  await using service = await startService({ env: { SVC_RUNNER: 'on' } })
  await service.end('SIGTERM')
}

/** Runs once after all test files. */
export async function globalTeardown(): Promise<void> {
  sharedLauncher?.[Symbol.dispose]()
  postgres?.stop()
  await ceph?.stop()
  for (const { name, install } of missingPrograms()) {
    process.stdout.write(`Tests that need ${name} were skipped; to run them: ${install}\n`)
  }
}
