import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programs } from './programs.ts'

type Engines = {
  /** The address of a PostgreSQL whose databases need not be removed. */
  postgres: string
  /** Which of its databases the others are copied from. */
  template: string
  /** The address of a bucket with credentials, in the form of SVC_TEST_S3. */
  bucket: string
  /** The program to start. */
  program: string
}

/**
 * Writes a launcher that gives each data directory, or each database that a test names, a shared store of its own, so
 * that tests which know nothing of stores run over one. SVC_TEST_STORE_ENDPOINT is another way to the bucket.
 */
export function writeSharedLauncher({ postgres, template, bucket, program }: Engines) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-launcher-'))
  const launcher = join(folder, 'svc')
  const hostKey = join(folder, 'host-key')
  const keyOptions = ['-q', '-t', 'ed25519', '-N', '']
  execFileSync('ssh-keygen', [...keyOptions, '-f', hostKey])
  const store = new URL(bucket)
  const [keyId, secret] = [store.username, store.password].map(decodeURIComponent)
  const [before, after] = storeAround(store)
  const server = postgres.replace(/[^/]*$/, '')
  const psql = join(programs.postgres.find() ?? '', 'psql')
  writeFileSync(
    launcher,
    `#!/bin/bash
if [[ -z $SVC_STORE ]]; then
  place=\${SVC_DATABASE_URL:-\${SVC_DATA_DIR:-$PWD/data}}
  id=$(printf %s "$place" | /usr/bin/md5sum)
  id=svc_\${id%% *}
  if [[ -z $SVC_DATABASE_URL ]]; then
    '${psql}' -X -q '${postgres}' -c "create database $id template ${template}" 2>/dev/null
    export SVC_DATABASE_URL="${server}$id"
  fi
  export SVC_STORE="${before}$id${after}"
  [[ -z $SVC_TEST_STORE_ENDPOINT ]] ||
    export SVC_STORE="\${SVC_STORE%%\\?*}?endpoint=$SVC_TEST_STORE_ENDPOINT"
  export SVC_STORE_ACCESS_KEY_ID='${keyId}' SVC_STORE_SECRET_ACCESS_KEY='${secret}'
  [[ $SVC_ENCRYPTION_KEY$SVC_ENCRYPTION_KEY_FILE ]] ||
    export SVC_ENCRYPTION_KEY=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
  if [[ -z $SVC_SSH_HOST_KEY_FILE ]]; then
    export SVC_SSH_HOST_KEY_FILE="\${SVC_DATA_DIR:-$PWD/data}/ssh_host_ed25519_key"
    [[ -e $SVC_SSH_HOST_KEY_FILE || $1 != serve ]] || {
      mkdir -p -m 700 "\${SVC_SSH_HOST_KEY_FILE%/*}"
      cp '${hostKey}' "$SVC_SSH_HOST_KEY_FILE"
      cp '${hostKey}.pub' "$SVC_SSH_HOST_KEY_FILE.pub"
    }
  fi
fi
exec '${program}' "$@"
`,
  )
  chmodSync(launcher, 0o755)
  // Some tests start it as another user.
  chmodSync(folder, 0o755)
  chmodSync(hostKey, 0o644)
  return {
    launcher,
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** The address of a bucket without credentials, before and after the place for one more part of its prefix. */
function storeAround(store: URL): [string, string] {
  const prefix = store.pathname.replace(/\/$/, '')
  return [`s3://${store.hostname}${prefix}/`, store.search]
}
