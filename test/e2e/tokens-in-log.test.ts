import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { without } from '../support/programs.ts'
import { createClient, startServiceWithSsh } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'

test('no token appears in the log, wherever a client puts it', {
  skip: without('openssh'),
}, async () => {
  await using service = await startServiceWithSsh({ env: { SVC_LOG_LEVEL: 'debug' } })
  const ada = await service.client({ username: 'ada' })
  const { token } = ada
  const authorized = createClient(service.url, service.adminToken)
  const escaped = token.replace('_', '%5F')
  const encoded = token.replace(/./g, (character) => `%${Buffer.from(character).toString('hex')}`)
  for (const path of [
    ...[`/${token}`, `/repos/${token}`, `/repos/${escaped}`, `/repos?cursor=${token}`],
    ...[`/repos/%73${token.slice(1)}`, `/repos/${encoded}`, `/${encodeURIComponent(encoded)}`],
    ...[`/repos/${token}.git/info/refs?service=git-upload-pack`, `/repos/x.git/info/refs?${token}`],
  ]) {
    await authorized.get(path)
    await fetch(service.url + path)
  }
  const headers = { 'user-agent': token, referer: `http://127.0.0.1/${token}`, [token]: token }
  await fetch(`${service.url}/repos`, { headers })
  await authorized.post('/repos/import', { source: `http://git:${token}@127.0.0.1:9/${token}.git` })
  await authorized.post('/repos', { name: token })
  await authorized.delete(`/repos/${token}`)
  await authorized.get(`/%zz${token}`)

  await using asUser = await createSshUser(service, undefined, { user: token })
  await asUser.ssh('whoami')
  await using long = await createSshUser(service, undefined, { user: `${'x'.repeat(75)}${token}` })
  await long.ssh('whoami')
  await using user = await createSshUser(service, ada)
  for (const command of [token, `info ${token}`, `info ${'x'.repeat(170)}${token}`])
    await user.ssh(command)

  await until(
    'the commands are logged',
    () => (service.log().match(/"ssh command"/g)?.length ?? 0) === 3,
  )
  await until('the logins are logged', () => /"ssh login failed"/.test(service.log()))
  assert.equal(await service.end('SIGTERM'), 0)
  const log = service.log()
  assert.match(log, /svc_\[hidden\]/)
  // Not a part of it either.
  for (let start = 0; start + 12 <= token.length; start++)
    assert.ok(!log.includes(token.slice(start, start + 12)), log)
  assert.ok(!log.includes(encoded.slice(-36)), log)
})
