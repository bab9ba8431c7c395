import type { Check } from '../check.ts'
import { auditCheck } from './audit-check.ts'
import { dataDirectoryCheck, instanceCheck, leftoversCheck } from './data-directory-check.ts'
import { clockCheck, databaseCheck } from './database-check.ts'
import { diskCheck, fileSystemCheck, limitsCheck } from './disk-check.ts'
import { gitCheck, sshClientCheck } from './git-check.ts'
import { keysCheck } from './keys-check.ts'
import { lfsCheck } from './lfs-check.ts'
import { objectsCheck } from './objects-check.ts'
import { httpPortCheck, sshPortCheck } from './port-checks.ts'
import { programCheck } from './program-check.ts'
import { providerCheck } from './provider-check.ts'
import { pushesCheck, repositoriesCheck, repositoryFilesCheck } from './repository-checks.ts'
import { runFilesCheck } from './run-files-check.ts'
import { sandboxCheck } from './sandbox-check.ts'
import { secretsCheck } from './secrets-check.ts'
import { settingsCheck } from './settings-check.ts'
import { storeCheck } from './store-check.ts'
import { toolsCheck } from './tools-check.ts'
import { webhooksCheck } from './webhooks-check.ts'

/** All checks, in order of execution. */
export const checks: Check[] = [
  programCheck,
  settingsCheck,
  gitCheck,
  sshClientCheck,
  sandboxCheck,
  toolsCheck,
  limitsCheck,
  dataDirectoryCheck,
  fileSystemCheck,
  diskCheck,
  keysCheck,
  databaseCheck,
  instanceCheck,
  secretsCheck,
  clockCheck,
  httpPortCheck,
  sshPortCheck,
  providerCheck,
  storeCheck,
  repositoriesCheck,
  repositoryFilesCheck,
  pushesCheck,
  runFilesCheck,
  lfsCheck,
  webhooksCheck,
  auditCheck,
  leftoversCheck,
  objectsCheck,
]

/** The checks of a machine with a runner only. */
export const runnerChecks: Check[] = [
  programCheck,
  settingsCheck,
  gitCheck,
  sandboxCheck,
  toolsCheck,
  limitsCheck,
]
