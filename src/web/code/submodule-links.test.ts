import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLinks } from '../links.ts'
import { submoduleLinks } from './submodule-links.ts'

const place = {
  name: 'site',
  baseUrl: 'https://git.example/svc',
  sshUrl: 'ssh://svc@git.example:2222/site.git',
  to: createLinks('/svc'),
}

test('a submodule leads to its repository, on this server or on the web', () => {
  for (const [url, link] of [
    ['https://github.com/a/b.git', 'https://github.com/a/b'],
    ['https://user:secret@example.com:8443/a/b/', 'https://example.com:8443/a/b'],
    ['git@github.com:a/b.git', 'https://github.com/a/b'],
    ['ssh://git@example.com:2222/a/b.git', 'https://example.com/a/b'],
    ['git://example.com/a.git', 'https://example.com/a'],
    ['../lib.git', '/svc/r/lib'],
    ['../lib', '/svc/r/lib'],
    ['../../../other/x.git', undefined],
    ['https://git.example/svc/repos/lib.git', '/svc/r/lib'],
    ['https://git.example/elsewhere', undefined],
    ['ssh://svc@git.example:2222/lib.git', '/svc/r/lib'],
    ['svc@git.example:lib.git', undefined],
    ['ssh://svc@git.example:22/lib.git', undefined],
    ['git://git.example/lib.git', undefined],
    ['https://git.example:8443/x', 'https://git.example:8443/x'],
    ['http://evil.example\\@git.example/svc/repos/lib.git', undefined],
    ['http:\\\\evil.example/x', undefined],
    ['\\\\evil.example/x', undefined],
    ['ssh://evil.example\\@git.example/lib.git', undefined],
    ['javascript:alert(1)', undefined],
    ['file:///etc/passwd', undefined],
    ['/srv/git/x.git', undefined],
    ['-u./payload', undefined],
  ] as const) {
    const text = `[submodule "x"]\n\tpath = lib/x\n\turl = ${url}\n`
    assert.equal(submoduleLinks(text, place).get('lib/x'), link, url)
  }
})

test('an address over SSH is of this server if its port is the one of the server', () => {
  for (const [sshUrl, url, link] of [
    ['ssh://svc@git.example/site.git', 'svc@git.example:lib.git', '/svc/r/lib'],
    ['ssh://svc@git.example/site.git', 'ssh://svc@git.example:22/lib.git', '/svc/r/lib'],
    ['ssh://svc@git.example/site.git', 'ssh://svc@git.example:2222/lib.git', undefined],
    ['ssh://svc@ssh.example:2222/site.git', 'ssh://svc@ssh.example:2222/lib.git', '/svc/r/lib'],
    [null, 'svc@git.example:lib.git', undefined],
  ] as const) {
    const text = `[submodule "x"]\n\tpath = x\n\turl = ${url}\n`
    assert.equal(submoduleLinks(text, { ...place, sshUrl }).get('x'), link, `${sshUrl} ${url}`)
  }
})

test('each section has its own path and address', () => {
  const text = `# comment\n[submodule "a"]\n\turl = https://a.example/a\n\tbranch = main\n\tpath = "a b"\n[submodule "b"]\n\tpath = b\n`
  assert.deepEqual([...submoduleLinks(text, place)], [['a b', 'https://a.example/a']])
})
