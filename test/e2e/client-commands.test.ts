// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { operations } from '#cli/operations/client-operations.ts'
import { type ClientHome, loggedIn } from '../support/client-home.ts'
import { startReceiver } from '../support/receiver.ts'
import { onlyInSoak } from '../support/rounds.ts'
import { type Service, startService } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'

const execute = promisify(execFile)
const workflow = 'on: [push, workflow_dispatch]\nsteps:\n  - run: echo "sum $((40 + 2))"\n'

// As a program runs them, though mostly in this process, and as a person types them.
for (const place of ['in a pipe', 'on a terminal'] as const)
  describe(`commands ${place}`, place === 'in a pipe' ? {} : onlyInSoak, () => {
    let service: Service
    let home: ClientHome
    /** A clone of the repository `tour`. */
    let clone: string
    const tried = new Set<string>()

    before(async () => {
      service = await startService({ env: { SVC_RUNNER: 'on' } })
      home = await loggedIn(service)
      await svc('repos', 'create', 'tour')
      await svc('clone', 'tour')
      clone = join(home.path, 'tour')
      await mkdir(join(clone, '.svc/workflows'), { recursive: true })
      await writeFile(join(clone, '.svc/workflows/ci.yml'), workflow)
      await push('Begin', 'main')
    })

    after(async () => {
      await home[Symbol.asyncDispose]()
      await service[Symbol.asyncDispose]()
    })

    /** Runs a command outside of the clone. */
    function svc(...args: string[]): Promise<string> {
      return runIn(home.path, args)
    }

    async function runIn(folder: string, args: string[]): Promise<string> {
      note(args)
      if (place === 'in a pipe') return home.svc(args, { folder })
      const { code, shown } = await home.onTerminal(args, [], { folder, columns: 300 })
      assert.equal(code, 0, shown)
      // Progress is one line, which is cleared at the end.
      return shown.replaceAll('\r\n', '\n').replace(/\r\x1b\[K([^\r\n]*(?=\r))?/g, '')
    }

    /** Runs a command in the clone. */
    function inClone(...args: string[]): Promise<string> {
      return runIn(clone, args)
    }

    async function jsonInClone(...args: string[]) {
      return JSON.parse(await inClone(...args, '--json'))
    }

    function note(args: string[]): void {
      tried.add(args[0] ?? '')
      tried.add(args.slice(0, 2).join(' '))
      tried.add(args.slice(0, 3).join(' '))
    }

    async function push(message: string, branch: string): Promise<void> {
      await home.git(clone, 'add', '--all')
      await home.git(clone, 'commit', '--quiet', '--allow-empty', '-m', message)
      await home.git(clone, 'push', '--quiet', 'origin', `HEAD:${branch}`)
    }

    test('repositories are shown, changed, renamed, deleted, restored and purged', async () => {
      await svc('repos', 'create', 'page', '--default-branch', 'trunk')
      assert.match(
        await svc('repos', 'show', 'page'),
        /^Name: page\nOwner: admin\nDefault branch: trunk\n/,
      )
      assert.equal(
        await svc('repos', 'edit', 'page', '--description', 'All about it'),
        'Changed page.\n',
      )
      assert.match(await svc('repos', 'list'), /^page .* All about it$/m)
      assert.match(await svc('repos', 'activity'), /^page\b/m)
      assert.equal(await svc('repos', 'rename', 'page', 'leaf'), 'Renamed to leaf.\n')
      const refused = await home.run(['repos', 'delete', 'leaf'])
      assert.deepEqual([refused.code, refused.out], [2, ''])
      assert.match(
        refused.err,
        /cannot be undone, and there is no terminal to ask; --yes confirms it/,
      )
      const said = await svc('repos', 'delete', 'leaf', '--yes')
      assert.match(said, /^Deleted leaf\. /)
      // It comes back by the commands of the sentence.
      const [list, restore] = said.match(/(?<=svc )deleted-repos \w+( ID)?/g) ?? []
      const [, id = ''] = /^(\w+) +leaf /m.exec(await svc(...(list ?? '').split(' '))) ?? []
      assert.equal(await svc(...(restore ?? '').replace('ID', id).split(' ')), 'Restored leaf.\n')
      await svc('repos', 'delete', 'leaf', '--yes')
      const [deleted] = JSON.parse(await svc('deleted-repos', 'list', '--json'))
      assert.match(
        await svc('deleted-repos', 'list'),
        /^ID +NAME +OWNER +DELETED +KEPT UNTIL\n\w+ +leaf /,
      )
      assert.equal(
        await svc('deleted-repos', 'restore', deleted.id, '--name', 'bud'),
        'Restored bud.\n',
      )
      await svc('repos', 'delete', 'bud', '--yes')
      assert.equal(
        await svc('deleted-repos', 'purge', deleted.id, '--yes'),
        `Purged ${deleted.id}.\n`,
      )
    })

    test('a repository is imported, with its progress on standard error', async () => {
      assert.equal(await svc('repos', 'import', clone, 'copy'), 'Imported copy.\n')
      assert.equal((await service.admin.get('/repos/copy')).body.state, 'ready')
      assert.equal(JSON.parse(await svc('import', clone, 'second', '--json')).name, 'second')
      const failed = await home.run(['import', '/nowhere'])
      assert.equal(failed.code, 1)
      assert.match(failed.err, /^svc: The import failed\. There is nothing at this path/m)
    })

    test('a repository becomes a remote of an existing project', async () => {
      const project = join(home.path, 'project')
      await home.git(home.path, 'init', '--quiet', project)
      await home.git(project, 'commit', '--quiet', '--allow-empty', '-m', 'Begin')
      await home.svc(['repos', 'create', 'project', '--remote', 'svc'], { folder: project })
      await home.git(project, 'push', '--quiet', 'svc', 'HEAD:main')
      const outside = await home.run(['repos', 'create', 'other', '--remote', 'svc'])
      assert.match(outside.err, /Nothing was created: --remote takes a clone/)
    })

    test('collaborators are listed, added and removed', async () => {
      assert.match(
        await inClone('collaborators', 'add', 'grace', '--role', 'maintain'),
        /^Added grace; no token/,
      )
      assert.equal(await inClone('collaborators', 'list'), 'USERNAME  ROLE\ngrace     maintain\n')
      assert.equal(await svc('collaborators', 'remove', 'tour', 'grace'), 'Removed grace.\n')
    })

    test('branches and tags are protected', async () => {
      await inClone(
        'protections',
        'add',
        'release/*',
        '--owners',
        'fast-forward',
        '--requires',
        'ci.yml',
        'status: ci/build by ci-bot',
      )
      assert.match(
        await inClone('protections', 'list', '--warnings'),
        /^PATTERN .*\nrelease\/\* +fast-forward +0 +false +false +\S+ci\.yml; status: ci\/build by ci-bot\n/,
      )
      assert.equal(
        await svc('protections', 'add', 'tour', 'v*', '--tag'),
        'Protected the tag v*.\n',
      )
      assert.deepEqual((await jsonInClone('protections', 'list', '--tag')).tags, ['v*'])
      assert.equal(await inClone('protections', 'remove', 'v*', '--tag'), 'Removed the rule v*.\n')
      await inClone('protections', 'remove', 'release/*')
      assert.deepEqual((await jsonInClone('protections', 'list')).branches, [])
    })

    test('tokens are created with limits, delegated, listed and revoked', async () => {
      const limits = [
        '--repository',
        'tour',
        '--ref',
        'refs/heads/agents/*',
        '--expires-in-seconds',
        '600',
      ]
      const token = (await svc('tokens', 'create', '--name', 'agent', ...limits)).trim()
      assert.match(token, /^svc_\w{36}$/)
      const made = JSON.parse(await svc('tokens', 'list', '--json')).at(-1)
      assert.deepEqual(
        [made.name, made.repositories, made.refs, made.expiresAt - made.createdAt],
        ['agent', ['tour'], ['refs/heads/agents/*'], 600_000],
      )
      assert.match(
        await svc('tokens', 'list'),
        / repositories tour, refs refs\/heads\/agents\/\*$/m,
      )
      const env = { SVC_URL: service.url, SVC_TOKEN: token }
      await home.svc(['tokens', 'delegate', '--name', 'part', '--permission', 'repo:read'], { env })
      note(['tokens', 'delegate'])
      const [part] = JSON.parse(
        await home.svc(['tokens', 'list', '--delegated', '--json'], { env }),
      )
      assert.deepEqual([part.name, part.permissions], ['part', ['repo:read']])
      const revoked = await home.svc(['tokens', 'revoke', part.id, '--delegated', '--yes'], { env })
      assert.equal(revoked, `Token ${part.id} is revoked.\n`)
      assert.equal(
        await svc('tokens', 'revoke', made.id, '--yes'),
        `Token ${made.id} is revoked.\n`,
      )
      const gone = await home.run(['repos', 'list'], { env })
      assert.equal(gone.code, 4)
      assert.match(gone.err, /Log in again: svc login http/)
      const never = await home.run(['tokens', 'create', '--expires-in-days', 'x'])
      assert.equal(never.code, 2)
    })

    test('users are listed, shown, changed, disabled, enabled and deleted', async () => {
      assert.match(await svc('users', 'me'), /^Username: admin\n[\s\S]*^Permissions: admin$/m)
      const permissions = ['--permission', 'read', '--json']
      const created = await svc('tokens', 'create', '--username', 'bo', ...permissions)
      assert.deepEqual(JSON.parse(created).permissions, ['repo:read', 'workflow:read'])
      const change = ['--display-name', 'Bo', '--email', 'bo@example.com']
      assert.equal(await svc('users', 'update', 'bo', ...change), 'The user bo is changed.\n')
      assert.match(await svc('users', 'list'), /^bo +Bo +bo@example.com /m)
      assert.equal(await svc('users', 'disable', 'bo'), 'The user bo is disabled.\n')
      assert.match(await svc('users', 'show', 'bo'), /^Disabled: \d{4}-/m)
      assert.equal(await svc('users', 'enable', 'bo'), 'The user bo is enabled.\n')
      assert.match(
        await svc('users', 'show', 'bo'),
        /^Disabled: never\nWithout rights since: never$/m,
      )
      assert.equal(await svc('users', 'delete', 'bo', '--yes'), 'The user bo is deleted.\n')
    })

    test('SSH keys are added from a file or standard input, listed and removed', async () => {
      const file = join(home.path, 'id.pub')
      await writeFile(file, `${newKeyLine('ada@laptop')}\n`)
      assert.match(await svc('keys', 'add', file), /^Added SHA256:\S+ for admin, id \w+\.\n$/)
      const limited = await home.svc(['keys', 'add', '-', '--expires-in-days', '9'], {
        input: newKeyLine(),
      })
      assert.match(limited, /, id \w+\. It is valid until \d{4}-[\d: -]+\.\n$/)
      const added = JSON.parse(
        await home.svc(['keys-add', '-', '--username', 'ada', '--json'], { input: newKeyLine() }),
      )
      note(['keys-add'])
      assert.deepEqual([added.name, added.username], ['command line', 'ada'])
      assert.match(await svc('keys', 'list'), /^\w+ +ada@laptop +admin /m)
      assert.match(await svc('keys', 'list', '--username', 'ada'), /^\w+ +command line +ada /m)
      assert.equal(await svc('keys', 'remove', added.id), `SSH key ${added.id} is removed.\n`)
    })

    test('trust rules are added, listed, shown and deleted', async () => {
      const whose = ['--name', 'ci', '--repository', 'tour', '--issuer', 'http://127.0.0.1:9']
      const claims = ['--claim', 'sub=repo:acme/tour:*', 'ref=main']
      const added = JSON.parse(await svc('trust-rules', 'add', ...whose, ...claims, '--json'))
      assert.deepEqual(added.claims, { sub: 'repo:acme/tour:*', ref: 'main' })
      assert.deepEqual([added.permissions, added.audience], [['repo:read'], service.url])
      const listed = await svc('trust-rules', 'list', '--repository', 'tour')
      assert.match(listed, /^\w+ +ci +http:\S+ +sub=repo:acme\/tour:\* ref=main +tour +repo:read /m)
      const shown = await svc('trust-rules', 'show', added.id)
      assert.match(shown, /^Audience: http:.*\nClaims: sub=repo:acme\/tour:\* ref=main$/m)
      const deleted = await svc('trust-rules', 'delete', added.id)
      assert.equal(deleted, `Trust rule ${added.id} is deleted.\n`)
    })

    test('a namespace is created, gets members, and is renamed and deleted', async () => {
      await svc('namespaces', 'create', 'acme')
      assert.equal(
        await svc('namespaces', 'members', 'add', 'acme', 'grace', '--role', 'maintain'),
        'grace has the role maintain; no token or key has this username yet.\n',
      )
      assert.match(await svc('namespaces', 'members', 'list', 'acme'), /^grace +maintain\b/m)
      await svc('namespaces', 'members', 'remove', 'acme', 'grace')
      assert.match(await svc('namespaces', 'list'), /^acme\b/m)
      const issuer = ['--issuer', 'http://127.0.0.1:9', '--claim', 'sub=repo:acme/tour:*']
      await svc('trust-rules', 'add', '--name', 'ci', '--namespace', 'acme', ...issuer)
      const rules = await svc('trust-rules', 'list', '--namespace', 'acme')
      assert.match(rules, /^\w+ +ci .* +all in acme +repo:read /m)
      const limits = ['--max-repositories', '2', '--max-bytes', '1GiB']
      assert.match(await svc('namespaces', 'limit', 'acme', ...limits), /at most 2 .*at most 1 GiB/)
      assert.match(await svc('namespaces', 'show', 'acme'), /^Most repositories: 2$/m)
      assert.match(await svc('namespaces', 'usage', 'acme'), /^DAY +PUSHES/)
      await svc('namespaces', 'rename', 'acme', 'emca')
      await svc('namespaces', 'delete', 'emca')
      assert.doesNotMatch(await svc('namespaces', 'list'), /emca/)
    })

    test('secrets are set from standard input, listed and deleted', async () => {
      const input = 'open sesame\n'
      const said = await home.svc(['secrets', 'set', 'API_KEY'], { folder: clone, input })
      note(['secrets', 'set'])
      assert.match(said, /^The secret API_KEY is saved;/)
      assert.match(await svc('secrets', 'list', 'tour'), /^NAME +CREATED +UPDATED\nAPI_KEY /)
      assert.equal(
        await inClone('secrets', 'delete', 'API_KEY', '--yes'),
        'Deleted the secret API_KEY.\n',
      )
    })

    test('runs are started, watched, listed, shown and repeated', async () => {
      assert.match(
        await inClone('runs', 'start', '--file', 'ci.yml'),
        /^Queued run \d+; its id is \w+/,
      )
      const log = await inClone('runs', 'watch')
      assert.match(log, /^sum 42$/m)
      assert.match(log, /^Run \d+: success\n$/m)
      const [newest] = await jsonInClone('runs', 'list', '--limit', '1')
      assert.match(
        await inClone('runs', 'list'),
        new RegExp(`^${newest.id} +\\d+ +success +main `, 'm'),
      )
      assert.match(await svc('runs', 'show', 'tour', newest.id), /^Status: success$/m)
      // In a clone, too, a repository can be named, and what may be left out can.
      assert.match(await inClone('runs', 'watch', 'tour'), /^Run \d+: success\n$/m)
      for (const run of ['latest', String(newest.number), newest.id])
        assert.match(await inClone('runs', 'show', run), new RegExp(`^Id: ${newest.id}$`, 'm'))
      assert.match(await inClone('runs', 'logs', 'latest', '--step', '0'), /^sum 42$/m)
      assert.match(await inClone('runs', 'rerun', newest.id), /^Queued attempt 2 of run \d+\.\n$/)
      // The log goes to standard error, which a terminal shows, too.
      const watchedAgain = await inClone('runs', 'watch', newest.id, '--json')
      assert.match(watchedAgain, /^\{"id":"\w+","conclusion":"success"\}$/m)
      assert.equal(await inClone('runs', 'validate'), 'The workflow files are valid.\n')
      await writeFile(
        join(clone, '.svc/workflows/slow.yml'),
        'on: workflow_dispatch\nsteps:\n  - run: sleep 600\n',
      )
      await push('Add a slow workflow', 'slow')
      await inClone('runs', 'start', '--branch', 'slow', '--file', 'slow.yml')
      assert.match(await inClone('runs', 'approve'), /^Run \d+ is approved\.\n$/)
      assert.match(await inClone('runs', 'cancel'), /^Run \d+ is cancelled\.\n$/)
      const watched = await home.run(['runs', 'watch'], { folder: clone })
      assert.equal(watched.code, 1)
      assert.match(watched.out, /^Run \d+: cancelled\n$/m)
      const noWorkspace = /ended with cancelled; only the workspaces of failed jobs are kept/
      await assert.rejects(inClone('runs', 'shell', '--job', 'steps'), noWorkspace)
    })

    test('artifacts, caches and annotations of runs are listed, downloaded and deleted', async () => {
      const text = `on: workflow_dispatch
steps:
  - run: |
      echo hello > out.txt
      echo "::warning file=out.txt,line=1::careful"
  - uses: actions/cache@v4
    with: { path: out.txt, key: outputs }
  - uses: actions/upload-artifact@v4
    with: { name: out, path: out.txt }
`
      await writeFile(join(clone, '.svc/workflows/files.yml'), text)
      await push('Add a workflow that keeps files', 'files')
      const { id } = await jsonInClone('runs', 'start', '--branch', 'files', '--file', 'files.yml')
      assert.match(await inClone('runs', 'watch', id), /^Run \d+: success\n$/m)
      const { commit } = await jsonInClone('runs', 'show', id)
      assert.match(await inClone('runs', 'annotations', commit), /warning .*careful/)
      const reported = await inClone('statuses', 'report', commit, 'ci/build', 'failure')
      assert.equal(reported, 'Reported failure of ci/build.\n')
      const statuses = await inClone('statuses', 'list', commit)
      assert.match(statuses, /^failure +ci\/build +\w+ .*\nsuccess +\.svc\/workflows\/files\.yml /m)
      assert.match(await inClone('artifacts', 'list', id), /\bout\b/)
      const file = join(home.path, 'out.tar.gz')
      await inClone('artifacts', 'get', id, 'out', '--output', file)
      const { stdout } = await execute('tar', ['-xzOf', file])
      assert.equal(stdout, 'hello\n')
      assert.match(
        await inClone('artifacts', 'usage'),
        /^Artifacts: 1, \d+ bytes of 10 GiB\nCaches: 1, \d+ bytes of 5 GiB\n$/,
      )
      const zip = join(home.path, 'out.zip')
      await inClone('artifacts', 'get', id, 'out', '--output', zip)
      assert.equal((await readFile(zip)).toString('latin1', 0, 4), 'PK\x03\x04')
      const downloaded = join(home.path, 'downloaded')
      const said = await inClone('runs', 'download', id, '--dir', downloaded)
      assert.equal(said, `Unpacked out into ${downloaded}/out: 1 file, 6 bytes.\n`)
      assert.equal(await readFile(join(downloaded, 'out', 'out.txt'), 'utf8'), 'hello\n')
      const [one] = await jsonInClone('runs', 'download', id, '--name', 'out', '--dir', downloaded)
      assert.deepEqual(one, { name: 'out', folder: downloaded, files: 1, bytes: 6 })
      const again = ['runs', 'download', id, '--name', 'out', '--dir', downloaded]
      const refused = await home.run(again, { folder: clone })
      assert.equal(refused.code, 1)
      assert.match(refused.err, /out\.txt exists\. svc artifacts get downloads the archive\.$/m)
      await inClone('artifacts', 'delete', id, 'out')
      assert.deepEqual(await jsonInClone('artifacts', 'list', id), [])
      assert.match(await inClone('caches', 'list'), /\boutputs\b/)
      await inClone('caches', 'delete', '--all')
      assert.deepEqual(await jsonInClone('caches', 'list'), [])
    })

    test('a branch is proposed, shown, edited and landed', async () => {
      await svc('repos', 'create', 'proposals')
      await writeFile(join(home.path, 'step.txt'), 'a step\n')
      await svc('commit', 'proposals', 'main', '-m', 'Begin', '--add', 'a=step.txt')
      await svc('refs', 'set', 'proposals', 'refs/heads/topic', 'main')
      await svc('commit', 'proposals', 'topic', '-m', 'Go on', '--add', 'b=step.txt')
      const proposed = await svc('changes', 'propose', 'proposals', 'topic', 'main')
      assert.match(proposed, /^Change 1: http:.*\/r\/proposals\/changes\/1\n$/)
      assert.match(await svc('changes', 'list', 'proposals'), /^1 +open +1 +main .* Go on$/m)
      assert.match(await svc('changes', 'waiting'), /^proposals +1 +main .* Go on$/m)
      assert.match(await svc('changes', 'diff', 'proposals', '1', '1', '1'), /the same commits/)
      const edited = await svc('changes', 'edit', 'proposals', '1', '--title', 'Go far')
      assert.equal(edited, 'Change 1 is open.\n')
      const on = ['--path', 'b', '--line', '1']
      const said = await svc('changes', 'comment', 'proposals', '1', '--text', 'Why a step?', ...on)
      const [, comment = ''] = /^Commented: (\w+)\n$/.exec(said) ?? []
      await svc('changes', 'edit-comment', 'proposals', '1', comment, '--resolved', 'on')
      const comments = await svc('changes', 'comments', 'proposals', '1')
      assert.match(comments, new RegExp(`^${comment} +\\w+ +1 +b +1 +1 +\\w+ +Why a step\\?$`, 'm'))
      await svc('changes', 'approve', 'proposals', '1', '1', '--verdict', 'none')
      assert.match(await svc('changes', 'show', 'proposals', '1'), /^Missing: nothing$/m)
      const folder = join(home.path, 'proposals')
      await svc('clone', 'proposals', folder)
      const fetch = (...args: string[]) => runIn(folder, ['changes', 'fetch', ...args])
      const gitIn = (...args: string[]) => home.git(folder, ...args)
      const refused = async (...args: string[]) =>
        (await home.run(['changes', 'fetch', ...args], { folder })).err
      assert.match(await fetch('1'), /^change\/1 is at version 1 of change 1, \w+\.$/m)
      assert.match(await gitIn('log', '-1', '--format=%s', 'change/1'), /^Go on$/m)
      await svc('commit', 'proposals', 'topic', '-m', 'Go farther', '--add', 'c=step.txt')
      assert.match(await fetch('1'), /^change\/1 is at version 2 /m)
      await gitIn('switch', '--quiet', 'main')
      assert.match(await fetch('1', '1'), /^change\/1 is at version 1 /m)
      await gitIn('commit', '--quiet', '--allow-empty', '-m', 'Mine')
      assert.match(await refused('proposals', '1'), /The branch change\/1 has other commits/)
      assert.match(await fetch('1', '2', '--detach'), /^HEAD is at version 2 /m)
      assert.match(await refused('1', '9'), /has no version 9/)
      await svc(
        'protections',
        'add',
        'proposals',
        'main',
        '--queue',
        'on',
        '--requires',
        'status: x',
      )
      const land = ['changes', 'land', 'proposals', '1', '--method', 'rebase'] as const
      assert.equal(await svc(...land, '--urgent'), 'Change 1 is in the queue of main.\n')
      assert.match(await svc('changes', 'queue', 'proposals'), /^main +1 +1 .* rebase +true /m)
      assert.equal(
        await svc('changes', 'withdraw', 'proposals', '1'),
        'Change 1 is not in the queue.\n',
      )
      await svc('protections', 'remove', 'proposals', 'main')
      const landed = await svc(...land)
      assert.match(landed, /^Change 1 has landed: main is now [0-9a-f]{40}\.\n$/)
    })

    test('files are committed, branches merged, refs set and deleted without a clone', async () => {
      await svc('repos', 'create', 'remote')
      await writeFile(join(home.path, 'page.md'), 'A page\n')
      await writeFile(join(home.path, 'run.sh'), 'true\n', { mode: 0o755 })
      const add = ['--add', 'docs/page.md=page.md', 'run.sh']
      const made = await svc('commit', 'remote', 'main', '-m', 'Begin', ...add)
      assert.match(made, /^main is now [0-9a-f]{40}\.\n$/)
      assert.match(
        await svc('refs', 'set', 'remote', 'refs/heads/topic', 'main'),
        /^refs\/heads\/topic is now [0-9a-f]{40}\.\n$/,
      )
      const change = ['--move', 'docs/page.md=page.md', '--delete', 'run.sh']
      const who = ['--author', 'Grace <grace@example.com>', '--date', '2026-01-02T03:04:05Z']
      const moved = await svc(
        'commit',
        'remote',
        'topic',
        '-m',
        'Move',
        ...change,
        ...who,
        '--json',
      )
      const { id, author } = JSON.parse(moved)
      assert.deepEqual([author.name, author.date], ['Grace', '2026-01-02T03:04:05Z'])
      assert.equal(
        await svc('merge', 'remote', 'main', 'topic', '--method', 'fast-forward'),
        `main is now ${id}.\n`,
      )
      assert.equal(await svc('merge', 'remote', 'main', 'topic'), 'main had everything already.\n')
      assert.equal(
        await svc('refs', 'delete', 'remote', 'refs/heads/topic', '--expected', id),
        'Deleted refs/heads/topic.\n',
      )
      await svc('clone', 'remote')
      const listed = await home.git(
        join(home.path, 'remote'),
        'ls-tree',
        '-r',
        '--name-only',
        'main',
      )
      assert.equal(listed.trim(), 'page.md')
    })

    test('pushes are listed, shown and undone, and events followed', async () => {
      const following = home.start(['events', '--follow', '--json', '--kind', 'push'])
      note(['events'])
      const [{ seq = 0 } = {}] = JSON.parse(await svc('events', '--limit', '1', '--json'))
      assert.equal(seq, 1)
      let followed = ''
      const twoLines = new Promise<void>((resolve) => {
        following.stdout.setEncoding('utf8').on('data', (text: string) => {
          followed += text
          if (followed.split('\n').length > 2) resolve()
        })
      })
      await push('A mistake', 'mistake')
      assert.match(await inClone('browse', 'tree', '--path', '.svc/workflows'), /\/ci\.yml$/m)
      const { commit } = await jsonInClone('browse', 'tree', '--recursive', '--rev', 'mistake')
      assert.match(await inClone('browse', 'branches'), /^mistake +[0-9a-f]{10,40} +\d+ +\d+ /m)
      assert.match(await inClone('browse', 'tags'), /^NAME +TYPE/)
      assert.equal(await inClone('browse', 'file', '.svc/workflows/ci.yml'), workflow)
      assert.match(await inClone('browse', 'tree', '.svc/'), /\.svc\/workflows$/m)
      const file = ['browse', 'file', '--path', '.svc/workflows/ci.yml']
      assert.match(await inClone(...file), /^ +- run: /m)
      assert.equal((await jsonInClone(...file)).isBinary, false)
      assert.match(await inClone('browse', 'commit', commit), /^Message: A mistake$/m)
      assert.match(
        await inClone('browse', 'log', '--rev', 'mistake', '--limit', '2'),
        /A mistake$/m,
      )
      const patch = await inClone('browse', 'commit', commit, '--diff')
      assert.match(patch, /^ {4}A mistake$/m)
      assert.match(await inClone('browse', 'compare', 'main', 'mistake'), /^Status: [a-z]+$/m)
      const [newest] = await jsonInClone('pushes', 'list', '--limit', '1')
      assert.match(await inClone('pushes', 'list'), /refs\/heads\/mistake created$/m)
      assert.match(
        await inClone('pushes', 'show', newest.id),
        /^Refs: refs\/heads\/mistake created$/m,
      )
      assert.equal(
        await inClone('pushes', 'undo', newest.id),
        'Undid it: refs/heads/mistake deleted.\n',
      )
      // The connection may have been opened after the first of them.
      await push('Another', 'mistake')
      await push('And another', 'mistake')
      await twoLines
      following.kill()
      for (const line of followed.split('\n').slice(0, 2))
        assert.equal(JSON.parse(line).kind, 'push')
      assert.match(
        await svc('events', '--repository', 'tour', '--kind', 'push'),
        /^\d+ .* push +tour +admin +refs/m,
      )
    })

    test('files are blamed, searched and archived', async () => {
      const blamed = await inClone('browse', 'blame', '.svc/workflows/ci.yml')
      assert.match(blamed, /^[0-9a-f]{10} +\S.* +3 +- run: echo "sum /m)
      const found = await inClone('browse', 'search', 'SUM $', '--ignore-case')
      assert.match(found, /^\.svc\/workflows\/ci\.yml +3 +- run: echo "sum /m)
      await inClone('browse', 'archive', '--output', 'tour.tar')
      const members = await execute('tar', ['tf', join(clone, 'tour.tar')])
      assert.match(members.stdout, /^tour-main\/\.svc\/workflows\/ci\.yml$/m)
      await rm(join(clone, 'tour.tar'))
      const unsaved = await home.run(['browse', 'archive', 'tour', '--format', 'tar'])
      assert.match(unsaved.out, /tour-main\/\.svc/)
    })

    test('webhooks are managed, and their deliveries inspected and repeated', async () => {
      await using receiver = await startReceiver()
      const url = `${receiver.url}/hook`
      const input = 'open sesame'
      const created = JSON.parse(
        await home.svc(['webhooks', 'create', url, '--event', 'push', '--with-secret', '--json'], {
          ...{ folder: clone, input },
        }),
      )
      note(['webhooks', 'create'])
      assert.deepEqual([created.url, created.events, created.hasSecret], [url, ['push'], true])
      const { id } = created
      assert.match(await inClone('webhooks', 'list'), new RegExp(`^${id} +http`, 'm'))
      assert.match(await inClone('webhooks', 'show', id), /^Enabled: true$/m)
      assert.equal(
        await inClone('webhooks', 'edit', id, '--event', 'push', 'workflow'),
        `Changed the webhook ${id}.\n`,
      )
      assert.match(await inClone('webhooks', 'ping', id), /^Queued the delivery \w+\.\n$/)
      const [delivery] = await jsonInClone('deliveries', 'list', id)
      assert.match(
        await inClone('deliveries', 'list', id),
        new RegExp(`^${delivery.id} +ping `, 'm'),
      )
      assert.match(await inClone('deliveries', 'show', id, delivery.id), /^Event: ping$/m)
      assert.match(await inClone('deliveries', 'retry', id, delivery.id), /^Queued the delivery/)
      assert.match(
        await inClone('deliveries', 'replay', id, '--since', '2020-01-01'),
        /^Replayed \d+ deliveries\.\n$/,
      )
      assert.match(
        await inClone('webhooks', 'edit', id, '--disable', '--without-secret'),
        /^Changed/,
      )
      assert.equal(await inClone('webhooks', 'delete', id, '--yes'), `Deleted the webhook ${id}.\n`)
    })

    test('rights are checked, and the exit code says the result', async () => {
      assert.equal(await inClone('check', 'push', 'main'), 'Allowed.\n')
      assert.equal(await inClone('check', 'deleteRepository'), 'Allowed.\n')
      await svc('collaborators', 'add', 'tour', 'grace', '--role', 'read')
      const args = ['check', 'push', 'main', '--change', 'force', '--username', 'grace']
      const { code, out } = await home.run(args, { folder: clone })
      assert.deepEqual(
        [code, out],
        [1, 'Refused: Your role in this repository is read; this requires write.\n'],
      )
      const asJson = await home.run([...args, '--json'], { folder: clone })
      assert.deepEqual([asJson.code, JSON.parse(asJson.out).code], [1, 'role_insufficient'])
      await svc('collaborators', 'remove', 'tour', 'grace')
    })

    test('the audit log is listed with filters', async () => {
      const lines = (
        await svc('audit', '--action', 'collaborator.added', 'push', '--via', 'http')
      ).split('\n')
      assert.match(
        lines[0] ?? '',
        /^NUMBER +TIME +USER +VIA +ADDRESS +ACTION +REPOSITORY +DETAILS$/,
      )
      assert.match(lines[1] ?? '', / admin +http +127\.0\.0\.1 +push +tour +pushId=/)
      const listed = JSON.parse(
        await svc('audit', '--repository', 'tour', '--limit', '2', '--json'),
      )
      assert.equal(listed.length, 2)
      assert.equal((await svc('audit', '--until', '2020-01-01')).split('\n').length, 2)
    })

    test('the leak guard and the run tokens of a repository are switched', async () => {
      await svc('repos', 'edit', 'tour', '--leak-guard', 'off')
      assert.match(await svc('repos', 'show', 'tour'), /^Leak guard: off$/m)
      await svc('repos', 'edit', 'tour', '--leak-guard', 'on', '--run-tokens', 'write')
      assert.match(await svc('repos', 'show', 'tour'), /^Run tokens: write$/m)
      await svc('repos', 'edit', 'tour', '--run-tokens', 'read', '--visibility', 'internal')
      assert.match(await svc('repos', 'show', 'tour'), /^Visibility: internal$/m)
      await svc('repos', 'edit', 'tour', '--visibility', 'private')
      assert.match(await svc('repos', 'show', 'tour'), /^Leak guard: on$/m)
    })

    test('health and metrics of the server are shown', async () => {
      assert.match(await svc('health'), /^Server: http\S+\nStatus: ok\nVersion: \d/)
      assert.match(await svc('metrics'), /^# HELP /m)
    })

    test('every command of the table was run', () => {
      const words = operations.map(({ command }) => command)
      assert.deepEqual(
        words.filter((command) => !tried.has(command)),
        [],
      )
    })
  })
