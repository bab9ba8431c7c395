// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { createClient, startService } from '../support/service.ts'
import { startStoreSite } from '../support/store-site.ts'
import { commitFiles, onPush, startPushSite } from '../support/waiting-push.ts'
import { endOf } from '../support/workflow-site.ts'

const options = {
  skip: withoutObjectStore || without('postgres') || without('bubblewrap'),
  timeout: 300_000,
}

test(
  'a push waits for a run on another node, whose runner gets the commit from there',
  options,
  async () => {
    await using site = await startStoreSite()
    await using other = await startService({ env: { ...site.env, SVC_RUNNER: 'on' } })
    await using pushing = await startPushSite(site.service, site.service.admin, 'site')
    const commit = await commitFiles(pushing.project, {
      '.svc/workflows/ci.yml': onPush(
        `test "$(cat only-here)" = yes
case $GITHUB_REF in refs/tags/*) test "$(git cat-file -t "$GITHUB_REF")" = tag ;; esac`,
      ),
      'only-here': 'yes',
    })
    await pushing.project.git('tag', '--annotate', 'v1', '--message', 'Version 1')
    const { code, text } = await pushing.push(['wait'], ['HEAD:main', 'v1']).ended
    assert.equal(code, 0, text)
    assert.match(text, /Run 1 \(CI\) succeeded/)
    assert.match(text, /Run 2 \(CI\) succeeded/)
    const admin = createClient(other.url, other.adminToken)
    for (const run of (await admin.get('/repos/site/workflows')).body)
      assert.deepEqual([run.commit, run.conclusion], [commit, 'success'])
  },
)

test(
  'a run is cancelled by another node when the node of its push is killed',
  options,
  async () => {
    await using site = await startStoreSite()
    await using other = await startService({ env: { ...site.env, SVC_RUNNER: 'on' } })
    await using pushing = await startPushSite(site.service, site.service.admin, 'site')
    const before = await pushing.branch('main')
    await commitFiles(pushing.project, { '.svc/workflows/ci.yml': onPush('sleep 3145') })
    const push = pushing.push(['wait'], ['HEAD:main'])
    await push.shows('Run 1 is running.')
    await site.service.end('SIGKILL')
    assert.notEqual((await push.ended).code, 0)
    const admin = createClient(other.url, other.adminToken)
    const run = await endOf(admin, 'site', '1')
    assert.deepEqual(
      [run.conclusion, run.fault],
      ['cancelled', 'The push that waited for this run was cut off.'],
    )
    const refs = await pushing.project.git('ls-remote', admin.remote('site'))
    assert.match(refs, new RegExp(`^${before}\trefs/heads/main$`, 'm'))
  },
)
