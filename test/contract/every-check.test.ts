// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFile,
  chmod,
  chown,
  cp,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  statfs,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { newId } from '#base/ids.ts'
import { createLog } from '#base/log.ts'
import { openDatabase } from '#database/database.ts'
import { checks } from '#ops/doctor/checks/checks.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import {
  createPathWithout,
  createPatient,
  createPrograms,
  examine,
  type Patient,
  type Result,
} from '../support/doctor.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { without as withoutProgram } from '../support/programs.ts'
import { launcher, startService } from '../support/service.ts'
import { smallDisk, withoutMounts } from '../support/small-disk.ts'
import { startTestIssuer } from '../support/test-issuer.ts'
import { createToolCache } from '../support/tool-cache.ts'

const execute = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))
const isRoot = process.getuid?.() === 0
const noMounts = await withoutMounts()

type Copy = Awaited<ReturnType<Patient['copy']>>
type Asked = Partial<Parameters<typeof examine>[0]>

type Example = {
  /** What is wrong, as the end of a sentence. */
  when: string
  skip?: string | false
  /** Harms a copy; how the doctor is to be called. What it opens goes away with the scene. */
  arrange: (copy: Copy, scene: AsyncDisposableStack) => Promise<Asked | undefined>
  level: Result['level']
  found: RegExp
  fix: RegExp
  /** Whether the fix is a command that mends it, just as it stands. */
  isMended?: boolean
}

const examples: Record<string, Example[]> = {
  program: [
    {
      when: 'the hook of pushes cannot be run',
      async arrange(_, scene) {
        const program = await copyOfProgram(scene)
        await chmod(join(program, 'dist/git/process/hooks/pre-receive'), 0o644)
        return { program: join(program, 'bin/svc') }
      },
      level: 'fault',
      found: /pre-receive is missing or not executable/,
      fix: /chmod 755 \S+\/dist\/git\/process\/hooks\/pre-receive$/,
    },
  ],
  settings: [
    {
      when: 'a setting is not accepted',
      arrange: async () => ({ env: { SVC_STOP_SECONDS: 'soon' } }),
      level: 'fault',
      found: /^SVC_STOP_SECONDS: "soon" is not accepted; it takes seconds from 0 to 3600\.$/,
      fix: /Set SVC_STOP_SECONDS/,
    },
    {
      when: 'a setting is misspelt',
      arrange: async () => ({ env: { SVC_DATADIR: '/srv' } }),
      level: 'fault',
      found: /^SVC_DATADIR: there is no such setting. Did you mean SVC_DATA_DIR\?/,
      fix: /Set SVC_DATADIR/,
    },
    {
      when: 'a setting needs another one',
      arrange: async () => ({
        env: {
          SVC_STORE: 's3://svc-data?region=here',
          SVC_STORE_ACCESS_KEY_ID: 'id',
          SVC_STORE_SECRET_ACCESS_KEY: 'secret',
        },
      }),
      level: 'fault',
      found: /^SVC_STORE: it also needs SVC_DATABASE_URL/,
      fix: /Set SVC_STORE .* or unset it/,
    },
    {
      when: 'a variable is no setting',
      arrange: async () => ({ env: { SVC_SOMETHING_ELSE: 'x' } }),
      level: 'warning',
      found: /^SVC_SOMETHING_ELSE is not a setting/,
      fix: /svc serve --help/,
    },
    {
      when: 'both ports are the same',
      arrange: async () => ({ env: { SVC_PORT: '4321', SVC_SSH_PORT: '4321' } }),
      level: 'warning',
      found: /both 4321/,
      fix: /another port/,
    },
  ],
  git: [
    {
      when: 'git is missing',
      arrange: async (_, scene) => without(scene, 'git'),
      level: 'fault',
      found: /^git is not on the PATH/,
      fix: /apt-get install git/,
    },
    {
      when: 'git is too old',
      arrange: async (_, scene) => withPrograms(scene, { git: 'echo git version 2.38.9' }),
      level: 'fault',
      found: /^git 2\.38\.9 is too old; svc needs 2\.39\.0/,
      fix: /apt-get install git, of 2\.39\.0 or newer/,
    },
    {
      when: 'git has a hole that can be come by',
      arrange: async (_, scene) => withPrograms(scene, { git: 'echo git version 2.43.3' }),
      level: 'warning',
      found: /^git 2\.43\.3 may have CVE-2024-32004, CVE-2024-32465: .*folders of this machine/,
      fix: /Install git 2\.43\.4 or newer.*apt-get changelog git \| grep -E 'CVE-2024-32004\|/,
    },
    {
      when: 'git fails',
      arrange: async (_, scene) => withPrograms(scene, { git: 'echo broken >&2; exit 3' }),
      level: 'fault',
      found: /git does not run: .*broken/,
      fix: /apt-get install git/,
    },
    {
      when: 'git never answers',
      arrange: async (_, scene) => withPrograms(scene, { git: 'exec sleep 1000' }),
      level: 'fault',
      found: /git does not run: no response within 10 s/,
      fix: /apt-get install git/,
    },
  ],
  'ssh-client': [
    {
      when: 'there is no ssh',
      arrange: async (_, scene) => without(scene, 'ssh'),
      level: 'warning',
      found: /^ssh is not on the PATH/,
      fix: /apt-get install openssh-client/,
    },
  ],
  sandbox: [
    {
      when: 'bubblewrap is missing',
      arrange: async (_, scene) => without(scene, 'bwrap'),
      level: 'warning',
      found: /^bwrap is not on the PATH/,
      fix: /^apt-get install bubblewrap$/,
    },
    {
      when: 'setpriv is missing',
      arrange: async (_, scene) => without(scene, 'setpriv'),
      level: 'warning',
      found: /^setpriv is not on the PATH/,
      fix: /^apt-get install util-linux$/,
    },
    {
      when: 'bubblewrap may not make a sandbox',
      arrange: async (_, scene) =>
        withPrograms(scene, { bwrap: 'echo "bwrap: No permissions" >&2; exit 1' }),
      level: 'warning',
      found: /cannot create a sandbox here: .*bwrap: No permissions/,
      fix: /user namespaces/,
    },
    {
      when: 'steps are to read what is not there',
      skip: withoutProgram('bubblewrap'),
      arrange: async () => ({ env: { SVC_SANDBOX_PATHS: '/nowhere' } }),
      level: 'warning',
      found: /^A path of SVC_SANDBOX_PATHS or SVC_TOOLS cannot be mounted: .*nowhere/,
      fix: /SVC_SANDBOX_PATHS/,
    },
  ],
  tools: [
    {
      when: 'a folder of tools is missing',
      arrange: async () => ({ env: { SVC_TOOLS: '/nowhere' } }),
      level: 'warning',
      found: /^The folder \/nowhere of SVC_TOOLS cannot be read: ENOENT/,
      fix: /SVC_TOOLS/,
    },
    {
      when: 'a tool is incomplete',
      arrange: async (_, scene) =>
        withTools(scene, { 'node/20.1.0/x64/bin/node': '' }, ['node/20.1.0/x64/bin/node']),
      level: 'warning',
      found: /\/node\/20\.1\.0\/x64 is incomplete, and not used/,
      fix: /: touch \S+\/node\/20\.1\.0\/x64\.complete$/,
    },
    {
      when: 'a tool has no program',
      arrange: async (_, scene) => withTools(scene, { 'node/20.1.0/x64/bin/npm': '' }),
      level: 'warning',
      found: /\/node\/20\.1\.0\/x64 has no program node/,
      fix: /Install it again/,
    },
    {
      when: 'a folder is spelt in another way than by the actions',
      arrange: async (_, scene) => withTools(scene, { 'python/3.12.0/x64/bin/python3': '' }),
      level: 'warning',
      found: /\/python is not used: the folder must be named Python\.$/,
      fix: /^mv \S+\/python \S+\/Python$/,
      isMended: true,
    },
    {
      when: 'a program is a link to where steps cannot read',
      async arrange(_, scene) {
        const cache = scene.use(await createToolCache({ 'go/1.22.0/x64/bin/gofmt': '' }))
        const elsewhere = scene.use(await createPrograms({ go: 'true' }))
        await symlink(join(elsewhere.path, 'go'), join(cache.path, 'go/1.22.0/x64/bin/go'))
        return { env: { SVC_TOOLS: cache.path } }
      },
      level: 'warning',
      found: /\/bin\/go leads to \S+\/go, which steps cannot read/,
      fix: /SVC_SANDBOX_PATHS/,
    },
    {
      when: 'other users cannot execute a program',
      skip: !isRoot && 'needs root',
      async arrange(_, scene) {
        const cache = scene.use(await createToolCache({ 'go/1.22.0/x64/bin/go': '' }))
        await chmod(join(cache.path, 'go/1.22.0/x64/bin/go'), 0o700)
        return { env: { SVC_TOOLS: cache.path } }
      },
      level: 'warning',
      found: /\/bin\/go cannot be executed by other users/,
      fix: /^chmod -R a\+rX /,
      isMended: true,
    },
  ],
  limits: [
    {
      when: 'few files may be open',
      arrange: async () => ({ by: ['sh', '-c', 'ulimit -n 512; exec "$@"', 'sh'] }),
      level: 'warning',
      found: /may open 512 files/,
      fix: /ulimit -n 65536.*LimitNOFILE=65536/,
    },
  ],
  'data-directory': [
    {
      when: 'the data directory is missing',
      arrange: async ({ dataDir }) => ({ dataDir: join(dataDir, 'nowhere') }),
      level: 'fault',
      found: /^There is no data directory at .*nowhere\.$/,
      fix: /SVC_DATA_DIR.*svc serve$/,
    },
    {
      when: 'a restore was cut short',
      async arrange({ dataDir }) {
        await writeFile(join(dataDir, 'restoring'), '')
        return undefined
      },
      level: 'fault',
      found: /^A restore into .* was interrupted\.$/,
      fix: /^If none is running: rm -r .*svc restore again/,
    },
    {
      when: 'the data directory is a file',
      arrange: async ({ database }) => ({ dataDir: database }),
      level: 'fault',
      found: /is not a directory/,
      fix: /SVC_DATA_DIR/,
    },
    {
      when: 'the folder is not of svc',
      arrange: async ({ dataDir }) => {
        await mkdir(join(dataDir, 'other'))
        return { dataDir: join(dataDir, 'other') }
      },
      level: 'fault',
      found: /is empty/,
      fix: /SVC_DATA_DIR/,
    },
    {
      when: 'others may read the data directory',
      async arrange({ dataDir }) {
        await chmod(dataDir, 0o755)
        return undefined
      },
      level: 'fault',
      found: /is open to other users \(mode 0755\)/,
      fix: /^chmod 700 /,
      isMended: true,
    },
    {
      when: 'the first admin token is still there',
      async arrange({ dataDir }) {
        await writeFile(join(dataDir, 'admin-token'), 'x')
        return undefined
      },
      level: 'warning',
      found: /^The first admin token is in .*admin-token\.$/,
      fix: /: rm /,
    },
    {
      when: 'something in it is of another user',
      skip: !isRoot && 'needs root',
      async arrange({ database }) {
        await chown(database, 12_345, 12_345)
        return undefined
      },
      level: 'fault',
      found: /^svc\.db in .*: not owned by the owner of the directory \(user 0\)/,
      fix: /^chown -R 0:0 /,
      isMended: true,
    },
    {
      when: 'another user owns it',
      skip: !isRoot && 'needs root',
      async arrange({ dataDir }) {
        await execute('chown', ['-R', '12345:12345', dataDir])
        return undefined
      },
      level: 'warning',
      found: /belongs to user 12345, and svc doctor runs as user 0/,
      fix: /setpriv --reuid=12345 --regid=12345 --clear-groups svc doctor/,
    },
    {
      when: 'it is not readable',
      skip: !isRoot && 'needs root',
      arrange: async () => ({
        by: ['setpriv', '--reuid=12345', '--regid=12345', '--clear-groups'],
      }),
      level: 'fault',
      found: /cannot be read: EACCES/,
      fix: /as the user that runs the service/,
    },
    {
      when: 'its disk takes no writes',
      skip: noMounts,
      async arrange(copy, scene) {
        const disk = scene.use(await smallDisk('16m'))
        const dataDir = join(disk.path, 'data')
        await cp(copy.dataDir, dataDir, { recursive: true })
        await execute('mount', ['-o', 'remount,ro', disk.path])
        return { dataDir }
      },
      level: 'fault',
      found: /cannot be written to \(EROFS\)/,
      fix: /mount -o remount,rw/,
    },
  ],
  'file-system': [
    {
      when: 'the data directory is in memory',
      skip: noMounts,
      async arrange(copy, scene) {
        const disk = scene.use(await smallDisk('16m'))
        const dataDir = join(disk.path, 'data')
        await cp(copy.dataDir, dataDir, { recursive: true })
        return { dataDir }
      },
      level: 'warning',
      found: /is on tmpfs: it is in memory/,
      fix: /move the directory to a local disk/,
    },
  ],
  disk: [
    {
      when: 'less is free than is to be kept free',
      arrange: async ({ dataDir }) => ({
        env: { SVC_FREE_SPACE_MIN: String((await freeBytes(dataDir)) * 2) },
      }),
      level: 'fault',
      found: /are free, less than the minimum of .*, so pushes are rejected/,
      fix: /du -xh .*SVC_FREE_SPACE_MIN/,
    },
    {
      when: 'little more is free than is to be kept free',
      arrange: async ({ dataDir }) => ({
        env: { SVC_FREE_SPACE_MIN: String(Math.floor((await freeBytes(dataDir)) / 1.5)) },
      }),
      level: 'warning',
      found: /are free; below .* pushes are rejected/,
      fix: /du -xh /,
    },
    ...(['fault', 'warning'] as const).map((level) => ({
      when: `the disk has few inodes left: ${level}`,
      skip: noMounts,
      async arrange(copy: Copy, scene: AsyncDisposableStack) {
        const disk = scene.use(await smallDisk('16m'))
        // As the server: src/config/free-space.ts.
        const inodes = level === 'fault' ? 1000 : 2000
        await execute('mount', ['-o', `remount,nr_inodes=${inodes}`, disk.path])
        const dataDir = join(disk.path, 'data')
        await cp(copy.dataDir, dataDir, { recursive: true })
        return { dataDir }
      },
      level,
      found: /inodes for only \d+ more files.* 1000.* pushes are rejected/,
      fix: /du -x --inodes/,
    })),
  ],
  keys: [
    ...['encryption.key', 'ssh_host_ed25519_key'].map(
      (name): Example => ({
        when: `others may read ${name}`,
        async arrange({ dataDir }) {
          await chmod(join(dataDir, name), 0o640)
          return undefined
        },
        level: 'fault',
        found: new RegExp(`${name} is open to other users \\(mode 0640\\)`),
        fix: /^chmod 600 /,
        isMended: true,
      }),
    ),
    {
      when: 'the key for secrets is cut short',
      async arrange({ dataDir }) {
        const path = join(dataDir, 'encryption.key')
        await writeFile(path, (await readFile(path, 'utf8')).slice(4))
        return undefined
      },
      level: 'fault',
      found: /encryption\.key holds no valid key: 32 bytes/,
      fix: /backup/,
    },
    {
      when: 'the key for secrets is missing',
      async arrange({ dataDir }) {
        await rm(join(dataDir, 'encryption.key'))
        return undefined
      },
      level: 'warning',
      found: /encryption\.key is missing/,
      fix: /backup/,
    },
    {
      when: 'the file that is named for the key for secrets is none',
      arrange: async () => ({ env: { SVC_ENCRYPTION_KEY_FILE: '/nonexistent' } }),
      level: 'fault',
      found: /^SVC_ENCRYPTION_KEY_FILE: the file cannot be read: no such file\.$/,
      fix: /svc serve --help/,
    },
    {
      when: 'the host key is damaged',
      async arrange({ dataDir }) {
        await writeFile(join(dataDir, 'ssh_host_ed25519_key'), 'no key\n')
        return undefined
      },
      level: 'fault',
      found: /is not a private ed25519 key/,
      fix: /mv .*ssh_host_ed25519_key \S+ssh_host_ed25519_key\.bad$/,
    },
    {
      when: 'the host key is missing',
      async arrange({ dataDir }) {
        await rm(join(dataDir, 'ssh_host_ed25519_key'))
        return undefined
      },
      level: 'warning',
      found: /the next start creates another one/,
      fix: /backup/,
    },
  ],
  database: [
    {
      when: 'its header is overwritten',
      arrange: ({ database }) => overwrite(database, 0, 'not a database'),
      level: 'fault',
      found: /svc\.db cannot be read as a database of svc: file is not a database/,
      fix: /backup/,
    },
    {
      when: 'a pipe is in its place',
      async arrange({ database }) {
        await rm(database)
        await promisify(execFile)('mkfifo', [database])
        return undefined
      },
      level: 'fault',
      found: /is not a regular file/,
      fix: /backup/,
    },
    {
      when: 'a page of it is damaged',
      arrange: ({ database }) => overwrite(database, 2 * 4096, 'x'.repeat(4096)),
      level: 'fault',
      found: /svc\.db (is damaged|cannot be read)/,
      fix: /backup/,
    },
    {
      when: 'it is of a newer svc',
      arrange: ({ database }) =>
        query(
          database,
          'update schema_version set version = version + 1, oldest_server = version + 1',
        ),
      level: 'fault',
      found: /of a newer svc \(version \d+, this one knows \d+\)/,
      fix: /Use that svc/,
    },
    {
      when: 'its address is none',
      arrange: async () => ({ env: { SVC_DATABASE_URL: 'postgres://svc:p[w@db:port/svc' } }),
      level: 'fault',
      found: /SVC_DATABASE_URL is not a complete address/,
      fix: /percent-encoded/,
    },
    {
      when: 'no PostgreSQL answers',
      arrange: async () => ({ env: { SVC_DATABASE_URL: 'postgres://svc@127.0.0.1:1/svc' } }),
      level: 'fault',
      found: /^PostgreSQL at 127\.0\.0\.1:1\/svc cannot be read: .*ECONNREFUSED/,
      fix: /psql "\$SVC_DATABASE_URL"/,
    },
    {
      when: 'it is missing',
      async arrange({ database }) {
        await rm(database)
        return undefined
      },
      level: 'fault',
      found: /svc\.db is missing/,
      fix: /SVC_DATABASE_URL.*backup/,
    },
    {
      when: 'it is a database of something else',
      async arrange({ database }) {
        await rm(database)
        return query(database, 'create table other (id text)')
      },
      level: 'fault',
      found: /no such table: schema_version/,
      fix: /backup/,
    },
    {
      when: 'rows refer to rows that are gone',
      arrange: ({ database }) =>
        query(database, "insert into collaborators values ('gone', 'ada', 1, 'read')"),
      level: 'fault',
      found: /rows of collaborators refer to missing rows/,
      fix: /backup/,
    },
  ],
  instance: [
    {
      when: 'the database is of another directory',
      async arrange({ dataDir }) {
        await writeFile(join(dataDir, 'instance'), `${newId()}\n`)
        return undefined
      },
      level: 'fault',
      found: /is not the one of the data directory/,
      fix: /SVC_DATA_DIR and SVC_DATABASE_URL/,
    },
  ],
  secrets: [
    {
      when: 'the key is another',
      async arrange({ dataDir }) {
        await writeFile(join(dataDir, 'encryption.key'), `${'ab'.repeat(32)}\n`)
        return undefined
      },
      level: 'fault',
      found: /^1 secret is sealed with a key that is not configured: [0-9a-f]{16}\.$/,
      fix: /old key after the new one, .* svc secrets rotate --discard-unreadable/,
    },
    {
      when: 'a secret was renamed in the database',
      arrange: ({ database }) => query(database, "update secrets set name = 'OTHER'"),
      level: 'fault',
      found: /^The secret OTHER of site cannot be decrypted: the stored value is damaged/,
      fix: /svc secrets set site OTHER/,
    },
    {
      when: 'the signing secret of a webhook was sealed elsewhere',
      arrange: ({ database }) =>
        query(
          database,
          `insert into webhooks (id, scope_id, url, events, receiver, created_at, updated_at)
            select 'w1', id, 'http://127.0.0.1:9/', 'push', '127.0.0.1:9', 1, 1 from repositories;
          insert into webhook_secrets (id, webhook_id, scope_id, sealed_value, key_id, created_at)
            select 's1', 'w1', scope_id, sealed_value, key_id, 1 from secrets`,
        ),
      level: 'fault',
      found:
        /^A signing secret of the webhook w1 of site cannot be decrypted: the stored value is damaged/,
      fix: /PATCH to \/repos\/site\/webhooks\/w1$/,
    },
  ],
  clock: [
    {
      when: 'something was written in the future',
      arrange: ({ database }) =>
        query(database, `update events set created_at = ${Date.UTC(2999, 0)}`),
      level: 'fault',
      found: /but something was written at 2999-01-01T/,
      fix: /timedatectl set-ntp true/,
    },
  ],
  'http-port': [
    {
      when: 'another program has the port',
      arrange: async (_, scene) => ({ env: { SVC_PORT: String(await takePort(scene)) } }),
      level: 'fault',
      found: /^Another program uses 127\.0\.0\.1:\d+\.$/,
      fix: /ss -ltnp 'sport = :\d+'.*SVC_PORT/,
    },
    {
      when: 'the address is none of this machine',
      // TEST-NET-1 of RFC 5737, which is never assigned.
      arrange: async () => ({ env: { SVC_HOST: '192.0.2.1', SVC_PORT: '8080' } }),
      level: 'fault',
      found: /^Listening at 192\.0\.2\.1:8080 fails \(EADDRNOTAVAIL\)/,
      fix: /Set SVC_HOST/,
    },
    {
      when: 'the server that runs does not answer there',
      async arrange({ dataDir }, scene) {
        scene.use(await startService({ dataDir }))
        return { env: { SVC_PORT: '1' } }
      },
      level: 'fault',
      found: /A server runs .* but svc does not respond at 127\.0\.0\.1:1: .*ECONNREFUSED/,
      fix: /SVC_PORT/,
    },
  ],
  'ssh-port': [
    {
      when: 'another program has the port',
      arrange: async (_, scene) => ({ env: { SVC_SSH_PORT: String(await takePort(scene)) } }),
      level: 'fault',
      found: /^Another program uses 127\.0\.0\.1:\d+\.$/,
      fix: /ss -ltnp 'sport = :\d+'.*SVC_SSH_PORT/,
    },
    {
      when: 'what answers there does not speak SSH',
      async arrange({ dataDir }, scene) {
        scene.use(await startService({ dataDir }))
        return { env: { SVC_SSH_PORT: String(await takePort(scene, '220 mail\r\n')) } }
      },
      level: 'fault',
      found: /A server runs .*: the server there does not speak SSH/,
      fix: /SVC_SSH_PORT/,
    },
  ],
  provider: [
    {
      when: 'the identity provider does not respond',
      arrange: async () => ({ env: { ...login, SVC_OIDC_ISSUER: 'http://127.0.0.1:1' } }),
      level: 'fault',
      found: /^The discovery document of http:\/\/127\.0\.0\.1:1\/ cannot be used: .*ECONNREFUSED/,
      fix: /SVC_OIDC_ISSUER/,
    },
    {
      when: 'the provider is another issuer',
      arrange: (_, scene) => withIssuer(scene, { issuer: 'https://id.example/realms/one' }),
      level: 'fault',
      found:
        /^The discovery document of \S+ cannot be used: the issuer there is "https:\/\/id.example\/realms\/one"\.$/,
      fix: /SVC_OIDC_ISSUER/,
    },
    {
      when: 'svc may not connect to the host of its tokens',
      arrange: (_, scene) => withIssuer(scene, { token_endpoint: 'https://10.0.0.1/token' }),
      level: 'fault',
      found:
        /^The token_endpoint of \S+ cannot be used: The host "10\.0\.0\.1" has a private address/,
      fix: /SVC_OUTBOUND_ALLOW/,
    },
    {
      when: 'the provider has no keys',
      arrange: (_, scene) => withIssuer(scene, {}, { keys: [] }),
      level: 'fault',
      found: /^The jwks_uri of \S+ cannot be used: \S+\/jwks has no keys\.$/,
      fix: /the provider/,
    },
    {
      when: 'logins can work',
      arrange: (_, scene) => withIssuer(scene, {}),
      level: 'ok',
      found: /^http:\S+ responds, and has keys\.$/,
      fix: /^$/,
    },
  ],
  store: [
    {
      when: 'the bucket cannot be reached',
      skip: withoutProgram('postgres'),
      async arrange(_, scene) {
        const { url, drop } = await createPostgresDatabase()
        scene.defer(drop)
        const log = createLog({ level: 'silent', output: process.stderr })
        await (await openDatabase({ dataDir: '', url, log })).destroy()
        return {
          env: {
            SVC_STORE: 's3://packs?endpoint=http://127.0.0.1:1',
            SVC_STORE_ACCESS_KEY_ID: 'id',
            SVC_STORE_SECRET_ACCESS_KEY: 'secret',
            SVC_DATABASE_URL: url,
            SVC_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString('base64'),
            SVC_SSH_PORT: 'off',
          },
        }
      },
      level: 'fault',
      found: /^The bucket of SVC_STORE cannot be listed: /,
      fix: /correct SVC_STORE/,
    },
  ],
  repositories: [
    {
      when: 'a repository has lost its directory',
      async arrange({ repository }) {
        await rm(repository, { recursive: true })
        return undefined
      },
      level: 'fault',
      found: /^site has lost its directory/,
      fix: /backup, or delete the repository: svc repos delete site$/,
    },
    {
      when: 'a deleted repository has lost its directory',
      async arrange({ repository, database }) {
        await query(
          database,
          "update repositories set state = 'deleted', deleted_at = 1, name_key = 'deleted/' || id",
        )
        await rm(repository, { recursive: true })
        return undefined
      },
      level: 'fault',
      found: /^The deleted repository site has lost its directory, .*\/deleted\//,
      fix: /backup, or purge the repository: svc deleted-repos purge \w{26}$/,
    },
    {
      when: 'the folder of all repositories is gone',
      async arrange({ dataDir }) {
        await rm(join(dataDir, 'repositories'), { recursive: true })
        return undefined
      },
      level: 'fault',
      found: /^site has lost its directory/,
      fix: /backup/,
    },
    {
      when: 'the database does not know a directory',
      arrange: ({ database }) => query(database, 'delete from repositories'),
      level: 'warning',
      found: /^The database does not know .*\.git\.$/,
      fix: /The next start of the service moves it to lost\+found/,
    },
    {
      when: 'something else lies among the repositories',
      async arrange({ dataDir }) {
        await writeFile(join(dataDir, 'repositories', 'notes.txt'), '')
        return undefined
      },
      level: 'fault',
      found: /notes\.txt is not the directory of a repository/,
      fix: /^mv .*notes\.txt /,
    },
  ],
  'repository-files': [
    {
      when: 'HEAD is missing',
      async arrange({ repository }) {
        await rm(join(repository, 'HEAD'))
        return undefined
      },
      level: 'fault',
      found: /has no HEAD, so Git finds no repository/,
      fix: /^printf 'ref: refs\/heads\/main\\n' > .*HEAD/,
    },
    {
      when: 'a folder that Git wants is missing',
      async arrange({ repository }) {
        await rm(join(repository, 'refs'), { recursive: true })
        return undefined
      },
      level: 'fault',
      found: /has no folder refs/,
      fix: /^mkdir -m 700 /,
      isMended: true,
    },
    {
      when: 'it has settings of another program',
      async arrange({ repository }) {
        await appendFile(join(repository, 'config'), '\thooksPath = /tmp/evil\n')
        return undefined
      },
      level: 'warning',
      found: /config has a line that svc did not write: hooksPath = \/tmp\/evil/,
      fix: /printf '\[core\]/,
    },
    {
      when: 'it borrows objects',
      async arrange({ repository }) {
        await mkdir(join(repository, 'objects/info'), { recursive: true })
        await writeFile(join(repository, 'objects/info/alternates'), '/srv/other/objects\n')
        return undefined
      },
      level: 'warning',
      found: /borrows objects from \/srv\/other\/objects/,
      fix: /repack -a -d && rm /,
    },
    {
      when: 'it is shallow',
      async arrange({ repository }) {
        const { stdout } = await git('/', [`--git-dir=${repository}`, 'rev-parse', 'main'])
        await writeFile(join(repository, 'shallow'), `${stdout}\n`)
        return undefined
      },
      level: 'warning',
      found: /is shallow/,
      fix: /fetch --unshallow/,
    },
  ],
  pushes: [
    {
      when: 'a push is never finished while a server runs',
      async arrange({ dataDir, database }, scene) {
        const service = scene.use(await startService({ dataDir }))
        const [repository] = (await service.admin.get('/repos')).body
        // No sweep can finish it: what it was to change cannot be read.
        const columns = 'id, repository_id, actor_id, actor_username, updates, judged_at'
        const values = `'push', '${repository.id}', 'a', 'admin', 'damaged', 1`
        return query(database, `insert into pushes (${columns}) values (${values})`)
      },
      level: 'warning',
      found: /^1, the oldest since 1970-01-01T/,
      fix: /log .*restart the service/,
    },
  ],
  'run-files': [
    {
      when: 'the file of an artifact is missing',
      arrange: ({ database }) =>
        query(
          database,
          "insert into run_files values ('01m0000000000000000000000a', 'r', 'n', 'kept', 5, '', 1)",
        ),
      level: 'fault',
      found: /^The file 01m0000000000000000000000a of an artifact or cache is missing\.$/,
      fix: /svc artifacts delete/,
    },
    {
      when: 'a file is unknown',
      async arrange({ dataDir }) {
        const folder = join(dataDir, 'run-files', '0b')
        await mkdir(folder, { recursive: true })
        await writeFile(join(folder, '01m0000000000000000000000b'), 'stray')
        return undefined
      },
      level: 'warning',
      found: /^The database does not know \S+run-files\/0b\/01m0000000000000000000000b\.$/,
      fix: /^rm \S+0b$/,
      isMended: true,
    },
  ],
  lfs: [
    {
      when: 'the file of an object is missing',
      arrange: ({ database }) =>
        query(
          database,
          `insert into lfs_objects (repository_id, oid, size, created_at, renewed_at, checked_at)
            select id, '${'0a'.repeat(32)}', 5, 1, 1, 1 from repositories`,
        ),
      level: 'fault',
      found: /^The Git LFS object (0a){32} of site is missing\.$/,
      fix: /\.git\/lfs\/objects\/0a\/0a\/(0a){32}.*: cp FILE \S+\/lfs\/objects\/0a\/0a\/(0a){32}$/,
    },
    {
      when: 'the file of an object has other bytes',
      async arrange({ database, repository }) {
        const oid = '0b'.repeat(32)
        const folder = join(repository, 'lfs/objects/0b/0b')
        await mkdir(folder, { recursive: true })
        await writeFile(join(folder, oid), 'other')
        return query(
          database,
          `insert into lfs_objects (repository_id, oid, size, created_at, renewed_at, checked_at)
            select id, '${oid}', 5, 1, 1, 1 from repositories`,
        )
      },
      level: 'fault',
      found: /^The Git LFS object (0b){32} of site has other bytes than its id says\.$/,
      fix: /backup/,
    },
  ],
  webhooks: [
    {
      when: 'a webhook was disabled as its receiver took nothing',
      arrange: ({ database }) =>
        query(
          database,
          `insert into webhooks (id, scope_id, url, events, receiver, created_at, updated_at, is_enabled, failing_since, disabled_at)
            select 'w1', id, 'http://127.0.0.1:9/', 'push', '127.0.0.1:9', 1, 1, 0, 1, 2 from repositories`,
        ),
      level: 'warning',
      found: /^The webhook w1 of site is disabled since 1970-01-01T/,
      fix: /PATCH to \/repos\/site\/webhooks\/w1/,
    },
  ],
  audit: [
    {
      when: 'an entry was changed',
      arrange: ({ database }) =>
        query(database, "update audit set actor_username = 'eve' where seq = 2"),
      level: 'fault',
      found: /^Entry 2, or the hash of the one before it, was changed\.$/,
      fix: /compare with a backup/,
    },
  ],
  leftovers: [
    {
      when: 'a start has set a repository aside',
      async arrange({ dataDir, repository }) {
        await mkdir(join(dataDir, 'lost+found'))
        await cp(repository, join(dataDir, 'lost+found', 'old.git'), { recursive: true })
        return undefined
      },
      level: 'warning',
      found: /lost\+found\/old\.git is a quarantined repository that the database did not know/,
      fix: /git --git-dir=\S+old\.git log --all.*rm -r \S+old\.git$/,
    },
  ],
  objects: [
    {
      when: 'a byte of a pack is damaged',
      arrange: ({ repository }) => damagePack(repository),
      level: 'fault',
      found: /^site \(.*\.git\) is damaged: ./,
      fix: /Stop the service, move .*\.git to another place, and restore it from a backup/,
    },
    {
      when: 'an object is missing',
      arrange: ({ repository }) => loseObject(repository),
      level: 'fault',
      found: /^site \(.*\.git\) is damaged: .*[0-9a-f]{40}/,
      fix: /backup/,
    },
    {
      when: 'an object is one that no push could bring',
      arrange: ({ repository }) => addMalformed(repository),
      level: 'warning',
      found:
        /malformed objects that a push would reject: error in commit [0-9a-f]{40}: missingCommitter/,
      fix: /served as it is/,
    },
    {
      when: 'the repository that was asked for is not there',
      arrange: async () => ({ args: ['--repository', 'nowhere'] }),
      level: 'fault',
      found: /^There is no repository "nowhere"\.$/,
      fix: /svc repos list/,
    },
  ],
}

let patient: Patient

before(async () => {
  patient = await createPatient()
})

after(() => patient[Symbol.asyncDispose]())

test('every check has an example of what it finds', () => {
  assert.deepEqual(
    Object.keys(examples),
    checks.map(({ id }) => id),
  )
  for (const [id, ofCheck] of Object.entries(examples)) assert.ok(ofCheck.length > 0, id)
})

for (const [check, ofCheck] of Object.entries(examples)) {
  describe(`svc doctor, ${check}`, () => {
    for (const example of ofCheck) {
      const { when, skip = false, arrange, level, found, fix, isMended } = example
      test(`reports a ${level} when ${when}`, { skip }, async () => {
        await using scene = new AsyncDisposableStack()
        const copy = await patient.copy()
        const asked = { dataDir: copy.dataDir, ...(await arrange(copy, scene)) }
        const { code, of, faults, stderr } = await examine(asked)
        const result = of(check).find((one) => found.test(one.found))
        assert.ok(result, JSON.stringify(of(check)))
        assert.deepEqual([result.level, stderr], [level, ''])
        assert.match(result.fix ?? '', fix)
        assert.equal(code, faults.length > 0 ? 1 : 0)
        if (!isMended) return
        await execute('bash', ['-c', result.fix ?? ''])
        const levels = (await examine(asked)).of(check).map((one) => one.level)
        assert.deepEqual([...new Set(levels)], ['ok'])
      })
    }
  })
}

test('the fix for a lost directory works', async () => {
  const { dataDir, repository } = await patient.copy()
  await rm(repository, { recursive: true })
  const [lost] = (await examine({ dataDir })).of('repositories')
  const [, command = ''] = /repository: svc (.+)$/.exec(lost?.fix ?? '') ?? []
  const env = { ...process.env, SVC_DATA_DIR: dataDir }
  await execute(launcher, command.split(' '), { env })
  const { of, code } = await examine({ dataDir })
  assert.deepEqual([of('repositories')[0]?.level, code], ['ok', 0])
})

test('a fault that prevents a start does so', async () => {
  const { dataDir } = await patient.copy()
  await writeFile(join(dataDir, 'repositories', 'notes.txt'), '')
  await assert.rejects(startService({ dataDir }), /notes\.txt/)
})

async function copyOfProgram(scene: AsyncDisposableStack): Promise<string> {
  const { path } = scene.use(await temporaryFolder())
  for (const name of ['bin', 'dist', 'package.json']) {
    await cp(join(root, name), join(path, name), { recursive: true })
  }
  await symlink(join(root, 'node_modules'), join(path, 'node_modules'))
  return path
}

async function without(scene: AsyncDisposableStack, name: string): Promise<Asked> {
  const { path } = scene.use(await createPathWithout(name))
  return { env: { PATH: path } }
}

async function withPrograms(
  scene: AsyncDisposableStack,
  scripts: Record<string, string>,
): Promise<Asked> {
  const { first } = scene.use(await createPrograms(scripts))
  return { env: { PATH: first } }
}

const login = { SVC_OIDC_CLIENT_ID: 'svc', SVC_OIDC_CLIENT_SECRET: 'a-secret' }

async function withIssuer(
  scene: AsyncDisposableStack,
  metadata: Record<string, unknown>,
  keys?: object,
): Promise<Asked> {
  const issuer = scene.use(await startTestIssuer())
  issuer.change.metadata = metadata
  if (keys) issuer.change.handlers['/jwks'] = (response) => response.end(JSON.stringify(keys))
  return { env: { ...login, SVC_OIDC_ISSUER: issuer.url } }
}

async function withTools(
  scene: AsyncDisposableStack,
  programs: Record<string, string>,
  incomplete: string[] = [],
): Promise<Asked> {
  const { path } = scene.use(await createToolCache(programs, { incomplete }))
  return { env: { SVC_TOOLS: path } }
}

async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

async function overwrite(path: string, at: number, text: string): Promise<undefined> {
  await using file = await open(path, 'r+')
  await file.write(text, at)
}

async function query(path: string, statement: string): Promise<undefined> {
  using database = new DatabaseSync(path, { enableForeignKeyConstraints: false })
  database.exec(statement)
}

async function takePort(scene: AsyncDisposableStack, greeting = ''): Promise<number> {
  const server = createServer((socket) => socket.on('error', () => {}).end(greeting))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  scene.defer(() => {
    server.close()
  })
  const address = server.address()
  return typeof address === 'object' && address ? address.port : 0
}

async function damagePack(repository: string): Promise<undefined> {
  const folder = join(repository, 'objects/pack')
  const name = (await readdir(folder)).find((one) => one.endsWith('.pack')) ?? ''
  await chmod(join(folder, name), 0o600)
  return overwrite(join(folder, name), 40, '\0\0\0\0')
}

async function loseObject(repository: string): Promise<undefined> {
  const folder = join(repository, 'objects/pack')
  const pack = (await readdir(folder)).find((one) => one.endsWith('.pack')) ?? ''
  const outside = join(dirname(repository), pack)
  await rename(join(folder, pack), outside)
  await rm(folder, { recursive: true })
  await execute('bash', ['-c', 'git --git-dir="$0" unpack-objects -q < "$1"', repository, outside])
  await rm(outside)
  const args = [`--git-dir=${repository}`, 'rev-parse', 'main:readme.txt']
  const { stdout: blob } = await git('/', args)
  await rm(join(repository, 'objects', blob.slice(0, 2), blob.slice(2)))
}

async function addMalformed(repository: string): Promise<undefined> {
  const run = (...args: string[]) => git('/', [`--git-dir=${repository}`, ...args])
  const { stdout: tree } = await run('rev-parse', 'main^{tree}')
  const file = join(repository, 'malformed')
  await writeFile(file, `tree ${tree}\nauthor Ada <a@b> 1 +0000\n\nOld\n`)
  const { stdout: commit } = await run('hash-object', '-t', 'commit', '-w', '--literally', file)
  await rm(file)
  await run('update-ref', 'refs/heads/old', commit)
}
