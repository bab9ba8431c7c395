import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Db } from '../database/schema.ts'
import type { Check } from './check.ts'
import { type DoctorContext, twice } from './context.ts'
import {
  knownVersion,
  listOrphanedTables,
  listSqliteFaults,
  readNewestTime,
  readPostgresState,
  readVersion,
} from './doctor-store.ts'
import { type Finding, fault, messageOf, ok, orOk, SkipError, warning } from './finding.ts'

const restore = 'Stop the service and bring the database back from a backup.'

/** Whether the database opens, is of a version that svc knows, and is whole. */
export const databaseCheck: Check = {
  id: 'database',
  title: 'the database',
  isLong: true,
  run: (context) =>
    context.setting('databaseUrl') ? checkPostgres(context) : checkSqlite(context),
}

async function checkSqlite(context: DoctorContext): Promise<Finding[]> {
  const folder = await context.dataDir()
  const path = join(folder, 'svc.db')
  if (!existsSync(path)) {
    if (!existsSync(join(folder, 'repositories'))) throw new SkipError('Nothing has been kept yet.')
    return [
      fault(
        `${path} is missing.`,
        `Set SVC_DATABASE_URL if the database is elsewhere, else: ${restore}`,
      ),
    ]
  }
  const look = async (db: Db) => ({
    faults: await listSqliteFaults(db),
    version: await readVersion(db),
    orphaned: await listOrphanedTables(db),
  })
  try {
    const { faults, version, orphaned } = await twice(() => context.inspect(look))
    const findings = [
      ...versionFindings(version),
      ...faults.map((text) => fault(`${path} is damaged: ${text}`, restore)),
      ...orphaned.map((table) =>
        fault(`${path}: rows of ${table} refer to rows that are not there.`, restore),
      ),
    ]
    return orOk(findings, `SQLite, ${describeVersion(version)}, whole.`)
  } catch (error) {
    return [fault(`${path} cannot be read as a database of svc: ${messageOf(error)}`, restore)]
  }
}

async function checkPostgres(context: DoctorContext): Promise<Finding[]> {
  const url = URL.parse(context.setting('databaseUrl')?.reveal() ?? '')
  if (!url) {
    const form = 'postgres://user:password@host:5432/name, with other characters percent-encoded'
    return [fault('SVC_DATABASE_URL is no whole address.', `Set it to one like ${form}.`)]
  }
  const place = `PostgreSQL at ${url.host}${url.pathname}`
  try {
    const startedAt = performance.now()
    const state = await context.inspect(readPostgresState)
    const took = Math.round(performance.now() - startedAt)
    const version = await context.inspect(readVersion).catch(() => 0)
    const findings = [...versionFindings(version), ...stateFindings(place, state)]
    const found = `${place}, version ${state?.version}, ${describeVersion(version)}; answered in ${took} ms.`
    return findings.some(({ level }) => level === 'fault') ? findings : [ok(found), ...findings]
  } catch (error) {
    return [
      fault(
        `${place} cannot be read: ${withoutPassword(messageOf(error), url)}`,
        'Start PostgreSQL, or mend SVC_DATABASE_URL; psql "$SVC_DATABASE_URL" shows whether it can be reached.',
      ),
    ]
  }
}

type State = Awaited<ReturnType<typeof readPostgresState>>

function stateFindings(place: string, state: State): Finding[] {
  if (!state) return []
  if (state.isStandby) {
    return [
      fault(
        `${place} is a standby, which takes no writes.`,
        'Set SVC_DATABASE_URL to the primary.',
      ),
    ]
  }
  return (['fsync', 'synchronousCommit', 'fullPageWrites'] as const)
    .filter((key) => state[key] === 'off')
    .map((key) => {
      const name = key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
      return warning(
        `${place} has ${name} off: a power failure can undo what was acknowledged.`,
        `psql "$SVC_DATABASE_URL" -c 'alter system set ${name} = on' -c 'select pg_reload_conf()'`,
      )
    })
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

function versionFindings(version: number | undefined): Finding[] {
  if (version === undefined || version <= knownVersion) return []
  return [
    fault(
      `The database is of a newer svc (version ${version}, this one knows ${knownVersion}).`,
      'Use that svc, or bring back a database from before it.',
    ),
  ]
}

function describeVersion(version = 0): string {
  if (version === 0) return 'empty; the next start makes its tables'
  if (version === knownVersion) return `version ${version}`
  return `version ${version}, which the next start brings to ${knownVersion}`
}

const epochOfSvc = Date.UTC(2024, 0, 1)
const skewMs = 5 * 60_000

/** Whether the clock is sane: tokens expire and events are ordered by it. */
export const clockCheck: Check = {
  id: 'clock',
  title: 'the clock',
  async run(context) {
    const now = Date.now()
    const shown = new Date(now).toISOString()
    const mend = 'Set the clock, and keep it so: timedatectl set-ntp true'
    if (now < epochOfSvc) return [fault(`The clock says ${shown}, which is long ago.`, mend)]
    const newest = await context.read(readNewestTime).catch(() => 0)
    if (newest > now + skewMs) {
      const written = new Date(newest).toISOString()
      return [fault(`The clock says ${shown}, but something was written at ${written}.`, mend)]
    }
    return [ok(`${shown}.`)]
  },
}
