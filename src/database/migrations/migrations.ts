import { tokensTable } from './0001-tokens.ts'
import { repositoriesTables } from './0002-repositories.ts'
import { eventsTables } from './0003-events.ts'
import { pushesTable } from './0004-pushes.ts'
import { instanceTable } from './0005-instance.ts'
import { sshKeysTable } from './0006-ssh-keys.ts'
import { importsTable } from './0007-imports.ts'
import { maintenanceTable } from './0008-maintenance.ts'
import { secretsTable } from './0009-secrets.ts'
import { runsTables } from './0010-runs.ts'
import { webhooksTables } from './0011-webhooks.ts'
import { sshKeyExpiry } from './0012-ssh-key-expiry.ts'
import { defaultBranchColumns } from './0013-default-branch.ts'
import { pushVia } from './0014-push-via.ts'
import { sharedStoreTables } from './0015-shared-store.ts'
import { packMtimes } from './0016-pack-mtimes.ts'
import { tokenLimits } from './0017-token-limits.ts'
import { deletedRepositories } from './0018-deleted-repositories.ts'
import { repositoryDetails } from './0019-repository-details.ts'
import { roleColumn } from './0020-roles.ts'
import { protectionRules } from './0021-protection-rules.ts'
import { auditTable } from './0022-audit.ts'
import { leakGuard } from './0023-leak-guard.ts'
import { sessionsTables } from './0024-sessions.ts'
import { pushRuns } from './0025-push-runs.ts'
import { runAnnotations } from './0026-run-annotations.ts'
import { runFilesTables } from './0027-run-files.ts'
import { jobTokens } from './0028-job-tokens.ts'
import { runShellsTables } from './0029-run-shells.ts'
import { headChosen } from './0030-head-chosen.ts'
import { serviceIdentity } from './0031-service-identity.ts'
import { runCauses } from './0032-run-causes.ts'
import { formerNames } from './0033-former-names.ts'
import { oldestServer } from './0034-oldest-server.ts'
import { toleratedJobs } from './0035-tolerated-jobs.ts'
import { importedAt } from './0036-imported-at.ts'
import { missingLfsObjects } from './0037-missing-lfs-objects.ts'
import type { Migration } from './migration.ts'

/**
 * All migrations, and for each whether servers that do not know it can run on. One that `adds` has only new tables, and new
 * columns that may be left out, and these servers break no rule by ignoring them. After one that `changes` they must stop:
 * they would fail, or ignore what limits access, for instance.
 */
const list: [migration: Migration, kind: 'adds' | 'changes'][] = [
  [tokensTable, 'adds'],
  [repositoriesTables, 'adds'],
  [eventsTables, 'adds'],
  [pushesTable, 'adds'],
  [instanceTable, 'adds'],
  [sshKeysTable, 'adds'],
  [importsTable, 'changes'],
  [maintenanceTable, 'adds'],
  [secretsTable, 'adds'],
  [runsTables, 'adds'],
  [webhooksTables, 'changes'],
  [sshKeyExpiry, 'changes'],
  [defaultBranchColumns, 'adds'],
  [pushVia, 'changes'],
  [sharedStoreTables, 'adds'],
  [packMtimes, 'adds'],
  [tokenLimits, 'changes'],
  [deletedRepositories, 'changes'],
  [repositoryDetails, 'changes'],
  [roleColumn, 'changes'],
  [protectionRules, 'changes'],
  [auditTable, 'changes'],
  [leakGuard, 'changes'],
  [sessionsTables, 'adds'],
  [pushRuns, 'adds'],
  [runAnnotations, 'adds'],
  [runFilesTables, 'adds'],
  [jobTokens, 'adds'],
  [runShellsTables, 'adds'],
  [headChosen, 'adds'],
  [serviceIdentity, 'adds'],
  [runCauses, 'changes'],
  [formerNames, 'changes'],
  [oldestServer, 'adds'],
  [toleratedJobs, 'adds'],
  [importedAt, 'adds'],
  [missingLfsObjects, 'adds'],
]

/** The version of a database is the number of migrations that were applied. */
export const migrations: Migration[] = list.map(([migration]) => migration)

const changes = new Set(list.filter(([, kind]) => kind === 'changes').map(([one]) => one))

/** The number of migrations that a server must know at least to run on the tables of a list. */
export function oldestServerOf(wanted: readonly Migration[]): number {
  return wanted.findLastIndex((migration) => changes.has(migration)) + 1
}
