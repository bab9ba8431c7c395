import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLinks } from '../links.ts'
import { submoduleLinks } from './submodule-links.ts'

const place = { name: 'site', baseUrl: 'https://git.example/svc', to: createLinks('/svc') }

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
    ['svc@git.example:lib.git', '/svc/r/lib'],
    ['javascript:alert(1)', undefined],
    ['file:///etc/passwd', undefined],
    ['/srv/git/x.git', undefined],
    ['-u./payload', undefined],
  ] as const) {
    const text = `[submodule "x"]\n\tpath = lib/x\n\turl = ${url}\n`
    assert.equal(submoduleLinks(text, place).get('lib/x'), link, url)
  }
})

test('each section has its own path and address', () => {
  const text = `# comment\n[submodule "a"]\n\turl = https://a.example/a\n\tbranch = main\n\tpath = "a b"\n[submodule "b"]\n\tpath = b\n`
  assert.deepEqual([...submoduleLinks(text, place)], [['a b', 'https://a.example/a']])
})
