import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { readSchema } from '#database/migrate.ts'
import type { Db } from '#database/schema.ts'
import type { Check } from '../check.ts'
import { type DoctorContext, twice } from '../context.ts'
import {
  knownVersion,
  listOrphanedTables,
  listSqliteFaults,
  readNewestTime,
  readPostgresState,
} from '../doctor-store.ts'
import {
  countOrNo,
  type Findings,
  fault,
  listOf,
  messageOf,
  ok,
  orOk,
  SkipError,
  warning,
} from '../finding.ts'

const restore = 'Stop the service and restore the database from a backup.'

/** Checks that the database opens, has a known version, and is intact. */
export const databaseCheck: Check = {
  id: 'database',
  title: 'the database',
  isLong: true,
  run: (context) =>
    context.setting('databaseUrl') ? checkPostgres(context) : checkSqlite(context),
}

async function checkSqlite(context: DoctorContext): Promise<Findings> {
  const folder = await context.dataDir()
  const path = join(folder, 'svc.db')
  if (!existsSync(path)) {
    if (!existsSync(join(folder, 'repositories'))) throw new SkipError('There is no data yet.')
    return fault(
      `${path} is missing.`,
      `Set SVC_DATABASE_URL if the database is elsewhere; otherwise: ${restore}`,
    )
  }
  const read = async (db: Db) => ({
    faults: await listSqliteFaults(db),
    schema: await readSchema(db),
    orphaned: await listOrphanedTables(db),
  })
  try {
    const { faults, schema, orphaned } = await twice(() => context.inspect(read))
    const findings = [
      versionFindings(schema),
      ...faults.map((text) => fault(`${path} is damaged: ${text}`, restore)),
      ...orphaned.map((table) =>
        fault(`${path}: rows of ${table} refer to missing rows.`, restore),
      ),
    ]
    return orOk(findings, `SQLite, ${describeVersion(schema.version)}, intact.`)
  } catch (error) {
    return fault(`${path} cannot be read as a database of svc: ${messageOf(error)}`, restore)
  }
}

async function checkPostgres(context: DoctorContext): Promise<Findings> {
  const url = URL.parse(context.setting('databaseUrl')?.reveal() ?? '')
  if (!url) {
    const form = 'postgres://user:password@host:5432/name, with other characters percent-encoded'
    return fault('SVC_DATABASE_URL is not a complete address.', `Set it to one like ${form}.`)
  }
  const place = `PostgreSQL at ${url.host}${url.pathname}`
  try {
    const startedAt = performance.now()
    const state = await context.inspect(readPostgresState)
    const tookMs = Math.round(performance.now() - startedAt)
    const schema = await context.inspect(readSchema).catch(() => ({ version: 0, oldestServer: 0 }))
    const findings = listOf([versionFindings(schema), stateFindings(place, state)])
    const found = `${place}, version ${state?.version}, ${describeVersion(schema.version)}; responded in ${tookMs} ms.`
    return findings.some(({ level }) => level === 'fault') ? findings : [ok(found), ...findings]
  } catch (error) {
    return fault(
      `${place} cannot be read: ${withoutPassword(messageOf(error), url)}`,
      'Start PostgreSQL, or correct SVC_DATABASE_URL; psql "$SVC_DATABASE_URL" shows whether it can be reached.',
    )
  }
}

type Schema = Awaited<ReturnType<typeof readSchema>>
type State = Awaited<ReturnType<typeof readPostgresState>>

function stateFindings(place: string, state: State): Findings {
  if (!state) return []
  if (state.isStandby) {
    return fault(
      `${place} is a standby, which accepts no writes.`,
      'Set SVC_DATABASE_URL to the primary.',
    )
  }
  const unsafe = (['fsync', 'synchronousCommit', 'fullPageWrites'] as const)
    .filter((key) => state[key] === 'off')
    .map((key) => {
      const name = key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
      return warning(
        `${place} has ${name} off: a power failure can lose acknowledged writes.`,
        `psql "$SVC_DATABASE_URL" -c 'alter system set ${name} = on' -c 'select pg_reload_conf()'`,
      )
    })
  return [...unsafe, standbyFindings(place, state)]
}

function standbyFindings(place: string, state: NonNullable<State>): Findings {
  const waits = state.synchronousStandbyNames !== '' && state.synchronousCommit !== 'local'
  if (state.standbys === 0 || waits) return []
  return warning(
    `${place} has ${countOrNo(state.standbys, 'standby', 'standbys')}, and commits wait for none: a failover can lose acknowledged writes.`,
    `psql "$SVC_DATABASE_URL" -c "alter system set synchronous_standby_names = 'ANY 1 (*)'" -c 'alter system set synchronous_commit = on' -c 'select pg_reload_conf()'`,
  )
}

function withoutPassword(text: string, { password }: URL): string {
  if (password === '') return text
  return text.replaceAll(password, '[hidden]').replaceAll(decoded(password), '[hidden]')
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function versionFindings({ version, oldestServer }: Schema): Findings {
  if (oldestServer <= knownVersion) return []
  return fault(
    `The database is of a newer svc (version ${version}, this one knows ${knownVersion}).`,
    'Use that svc, or restore an older database.',
  )
}

function describeVersion(version: number): string {
  if (version === 0) return 'empty; the next start creates its tables'
  if (version === knownVersion) return `version ${version}`
  if (version > knownVersion)
    return `version ${version} of a newer svc, beside which this one can run`
  return `version ${version}, which the next start migrates to ${knownVersion}`
}

const earliestTime = Date.UTC(2024, 0, 1)
const maxSkewMs = 5 * 60_000
const maxDatabaseSkewMs = 5000

/** Checks that the clock is plausible: it decides about the expiry of tokens. */
export const clockCheck: Check = {
  id: 'clock',
  title: 'the clock',
  async run(context) {
    const now = Date.now()
    const shown = new Date(now).toISOString()
    const fix = 'Synchronize the clock: timedatectl set-ntp true'
    if (now < earliestTime) return fault(`The clock shows ${shown}, which is in the past.`, fix)
    const newest = await context.read(readNewestTime).catch(() => 0)
    if (newest > now + maxSkewMs) {
      const written = new Date(newest).toISOString()
      return fault(`The clock shows ${shown}, but something was written at ${written}.`, fix)
    }
    return (await databaseSkew(context)) ?? [ok(`${shown}.`)]
  },
}

async function databaseSkew(context: DoctorContext): Promise<Findings> {
  if (!context.setting('databaseUrl')) return undefined
  const state = await context.inspect(readPostgresState).catch(() => undefined)
  const differenceMs = state ? Math.abs(state.now - Date.now()) : 0
  if (differenceMs <= maxDatabaseSkewMs) return undefined
  return warning(
    `The clocks of this machine and of PostgreSQL differ by ${Math.round(differenceMs / 1000)} s.`,
    'Synchronize both clocks: timedatectl set-ntp true',
  )
}
