import { type Postgres, startPostgres } from './postgres.ts'
import { mayNotSkip, missingPrograms } from './programs.ts'

let postgres: Postgres | undefined

/** Runs once before all test files: starts what they share. */
export async function globalSetup(): Promise<void> {
  const missing = missingPrograms()
  if (mayNotSkip && missing.length > 0) {
    const list = missing.map(({ name, install }) => `${name} (${install})`).join(', ')
    throw new Error(`Nothing may be skipped, but these are missing: ${list}`)
  }
  postgres = await startPostgres()
  if (postgres) process.env.SVC_TEST_DATABASE_URL = postgres.url
}

/** Runs once after all test files. */
export async function globalTeardown(): Promise<void> {
  postgres?.stop()
  for (const { name, install } of missingPrograms()) {
    process.stdout.write(`Tests that need ${name} were skipped; to run them: ${install}\n`)
  }
}
