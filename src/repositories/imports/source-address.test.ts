import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isRepositoryName } from '#access/names.ts'
import { Problem } from '#base/problem.ts'
import { character } from '../../../test/support/fuzz.ts'
import { toRounds } from '../../../test/support/rounds.ts'
import { parseSource, type RemoteSource } from './source-address.ts'

function remote(text: string): RemoteSource {
  const source = parseSource(text)
  assert.ok(source.kind === 'remote', text)
  return source
}

function refusal(text: string): string {
  try {
    parseSource(text)
  } catch (error) {
    assert.ok(error instanceof Problem, String(error))
    assert.equal(error.code, 'invalid_request')
    const [fault] = error.errors ?? []
    assert.equal(fault?.pointer, '/source')
    assert.equal(error.message, `/source ${fault?.detail}`)
    assert.match(error.message, /^[^\n]+\.$/)
    return error.message
  }
  return assert.fail(`${text} was accepted`)
}

test('a remote address is parsed, and shown without its credentials', () => {
  const { username, password, ...source } = remote(
    'HTTPS://Ada:s%40cret@Git.Example.COM.:8443/a%20b/Site.git',
  )
  assert.deepEqual(source, {
    kind: 'remote',
    protocol: 'https',
    host: 'git.example.com',
    port: 8443,
    path: '/a%20b/Site.git',
    shown: 'https://git.example.com:8443/a%20b/Site.git',
    nameHint: 'Site',
  })
  assert.deepEqual([username?.reveal(), password?.reveal()], ['Ada', 's@cret'])
})

test('hosts and ports are parsed in all spellings', () => {
  const addresses: [text: string, host: string, port: number | undefined, shown: string][] = [
    ['ssh://git@example.com/x', 'example.com', undefined, 'ssh://example.com/x'],
    ['ssh://git@example.com:/x', 'example.com', undefined, 'ssh://example.com/x'],
    ['ssh://git@example.com:022/x', 'example.com', 22, 'ssh://example.com:22/x'],
    ['git://example.com:65535/x', 'example.com', 65_535, 'git://example.com:65535/x'],
    ['ssh://git@[2001:DB8::1]:22/x', '2001:db8::1', 22, 'ssh://[2001:db8::1]:22/x'],
    ['https://[::FFFF:127.0.0.1]/x', '::ffff:7f00:1', undefined, 'https://[::ffff:7f00:1]/x'],
    ['http://2130706433/x', '127.0.0.1', undefined, 'http://127.0.0.1/x'],
    ['http://127。1/x', '127.0.0.1', undefined, 'http://127.0.0.1/x'],
    ['http://%31%32%37.1:80/x', '127.0.0.1', 80, 'http://127.0.0.1:80/x'],
    ['https://@example.com/x', 'example.com', undefined, 'https://example.com/x'],
    [
      'https://bücher.example/x',
      'xn--bcher-kva.example',
      undefined,
      'https://xn--bcher-kva.example/x',
    ],
    ['ssh://example.com/~ada/x', 'example.com', undefined, 'ssh://example.com/~ada/x'],
    ['https://example.com//a//%40b/', 'example.com', undefined, 'https://example.com//a//%40b/'],
  ]
  for (const [text, host, port, shown] of addresses) {
    const source = remote(text)
    assert.deepEqual([source.host, source.port, source.shown], [host, port, shown], text)
    const again = remote(shown)
    assert.deepEqual([again.host, again.port, again.shown], [host, port, shown], shown)
  }
})

test('users and passwords are decoded, and undefined when not given', () => {
  const users: [text: string, username: string | undefined, password: string | undefined][] = [
    ['https://example.com/x', undefined, undefined],
    ['https://ada@example.com/x', 'ada', undefined],
    ['https://ada:@example.com/x', 'ada', ''],
    ['https://:token@example.com/x', '', 'token'],
    ['https://ada:a:b@example.com/x', 'ada', 'a:b'],
    ['https://%C3%A4da:%2f%3F%23%40%25@example.com/x', 'äda', '/?#@%'],
    ['https://a+b:c+d@example.com/x', 'a+b', 'c+d'],
    ['ssh://ada%40corp@example.com/x', 'ada@corp', undefined],
    ['ssh://git:secret@[::1]/x', 'git', 'secret'],
  ]
  for (const [text, username, password] of users) {
    const source = remote(text)
    assert.equal(source.username?.reveal(), username, text)
    assert.equal(source.password?.reveal(), password, text)
  }
})

test('a local path is absolute and normalized', () => {
  const paths: [text: string, path: string, nameHint: string | undefined][] = [
    ['/srv/git/site.git', '/srv/git/site.git', 'site'],
    ['/srv/git/site.git/', '/srv/git/site.git', 'site'],
    ['/srv//git/./site/.git', '/srv/git/site/.git', 'site'],
    ['/srv/site/.git/', '/srv/site/.git', 'site'],
    ['/srv/dump.bundle', '/srv/dump.bundle', 'dump.bundle'],
    ['/srv/a b\\c:d@[e]?f#g%2fh', '/srv/a b\\c:d@[e]?f#g%2fh', undefined],
    ['/srv/...', '/srv/...', undefined],
    ['//server/share', '/server/share', 'share'],
    ['/.git', '/.git', undefined],
    ['/', '/', undefined],
  ]
  for (const [text, path, nameHint] of paths) {
    assert.deepEqual(parseSource(text), { kind: 'local', path, nameHint }, text)
  }
})

test('the name is the last segment of the path, if that is a valid name', () => {
  const hints: [text: string, nameHint: string | undefined][] = [
    ['https://example.com/ada/site.git', 'site'],
    ['https://example.com/ada/site.git//', 'site'],
    ['https://example.com/site/.git', 'site'],
    ['https://example.com/~ada', undefined],
    ['https://example.com/si%74e', 'site'],
    ['https://example.com/ada%2Fsite', 'site'],
    ['https://example.com/a%20b', undefined],
    ['https://example.com/%ff', undefined],
    ['https://example.com/import', undefined],
    ['https://example.com/site.git.git', undefined],
    [`https://example.com/${'x'.repeat(101)}`, undefined],
  ]
  for (const [text, nameHint] of hints) assert.equal(remote(text).nameHint, nameHint, text)
})

test('an invalid address is rejected with the reason', () => {
  const faults: [text: string, fault: RegExp][] = [
    ['', /is empty/],
    [`https://example.com/${'x'.repeat(2048)}`, /more than 2048 characters/],
    ['-uhttps://example.com/x', /starts with "-"/],
    ['--upload-pack=touch x', /starts with "-"/],
    ['ext::sh -c touch% /tmp/x', /transport of its own/],
    ['fd::7', /transport of its own/],
    ['https::https://example.com/x', /transport of its own/],
    ['file:///srv/x', /file:\/\/ address; a local repository is named by its path alone/],
    ['FILE://localhost/srv/x', /file:\/\/ address/],
    ['ftp://example.com/x', /scheme that is not accepted/],
    ['git+ssh://example.com/x', /scheme that is not accepted/],
    ['ssh+git://example.com/x', /scheme that is not accepted/],
    ['javascript://example.com/x', /scheme that is not accepted/],
    ['git@example.com:ada/site.git', /write ssh:\/\/git@example.com\/ada\/site.git;/],
    ['example.com:/srv/site.git', /write ssh:\/\/example.com\/srv\/site.git;/],
    ['ada@example.com:~/site', /write ssh:\/\/<user>@example.com\/~\/site;/],
    ['git@[::1]:site', /an SSH address is written like ssh:/],
    ['C:\\site', /an SSH address is written like ssh:/],
    ['https:example.com/x', /has no "\/\/" after its scheme/],
    ['ssh:/example.com/x', /has no "\/\/" after its scheme/],
    ['site', /relative path/],
    ['./site', /relative path/],
    ['../site', /relative path/],
    ['~/site', /relative path/],
    ['~ada/site', /relative path/],
    [' /site', /relative path/],
    ['//a/../b', /".." in its path/],
    ['/..', /".." in its path/],
    ['/a\0b', /control characters/],
    ['/a\nb', /control characters/],
    ['/a\ud800', /control characters/],
    ['https://example.com/x\n', /control characters/],
    ['https://exam\tple.com/x', /control characters/],
    ['https://example.com/x\u2028y', /control characters/],
    ['https://example.com/a%0ab', /encoded control characters/],
    ['https://example.com/a%00b', /encoded control characters/],
    ['https://ada:a%0db@example.com/x', /encoded control characters/],
    ['https://example.com/a b', /space/],
    ['https://example.com/a\u00a0b', /space/],
    ['https://exam ple.com/x', /space/],
    ['https://example.com\\@evil.example/x', /backslash/],
    ['https://example.com/x?y', /query/],
    ['https://example.com?/x', /query/],
    ['https://example.com/x#y', /fragment/],
    ['https://example.com#@evil.example/x', /fragment/],
    ['https://example.com/100%', /"%" that encodes nothing/],
    ['https://example.com/%zz', /"%" that encodes nothing/],
    ['https:///x', /no host/],
    ['ssh://git@/x', /no host/],
    ['ssh://:22/x', /no host/],
    ['https://example.com', /no path/],
    ['https://example.com/', /no path/],
    ['ssh://example.com//', /no path/],
    ['https://-x/y', /neither a host name nor an IP address/],
    ['ssh://-oProxyCommand=x/y', /neither a host name nor an IP address/],
    ['ssh://%2doProxyCommand=x/y', /neither a host name nor an IP address/],
    ['ssh://a%40b/x', /neither a host name nor an IP address/],
    ['ssh://a%2fb/x', /neither a host name nor an IP address/],
    ['ssh://a%3a22/x', /neither a host name nor an IP address/],
    ['ssh://%2531.0.0.1/x', /neither a host name nor an IP address/],
    ['https://a..b/x', /neither a host name nor an IP address/],
    ['https://1.2.3.4.5/x', /neither a host name nor an IP address/],
    ['https://[fe80::1%25eth0]/x', /neither a host name nor an IP address/],
    ['https://[example.com]/x', /neither a host name nor an IP address/],
    ['https://::1/x', /no number as its port/],
    ['https://[::1/x', /no number as its port/],
    ['https://[::1]x/x', /no number as its port/],
    ['ssh://git@example.com:ada/site', /no number as its port; a path starts with a slash/],
    ['https://example.com:80:90/x', /no number as its port/],
    ['https://example.com:-1/x', /no number as its port/],
    ['https://example.com:0/x', /port that is not from 1 to 65535/],
    ['https://example.com:65536/x', /port that is not from 1 to 65535/],
    ['https://example.com:99999999999999999999/x', /port that is not from 1 to 65535/],
    ['https://a@b@example.com/x', /more than one "@"/],
    ['https://a:b@c@example.com/x', /more than one "@"/],
    ['git://ada@example.com/x', /git:\/\/ knows none/],
    ['https://a[b@example.com/x', /must be percent-encoded/],
    ['https://ada:pässword@example.com/x', /must be percent-encoded/],
    ['https://%ff@example.com/x', /not UTF-8/],
    ['https://a:%ff@example.com/x', /not UTF-8/],
    ['https://a%3ab@example.com/x', /user that is not accepted/],
    ['https://-a@example.com/x', /user that is not accepted/],
    ['ssh://-oProxyCommand=x@example.com/x', /user that is not accepted/],
    ['ssh://%2doProxyCommand=x@example.com/x', /user that is not accepted/],
    ['ssh://%5bevil%5d@example.com/x', /user that is not accepted/],
    ['ssh://evil.example%2fx@example.com/x', /user that is not accepted/],
    ['ssh://:secret@example.com/x', /user that is not accepted/],
    ['https://example.com/a@b', /has "@" in its path; %40 stands for it/],
    ['https://ada/pa55@example.com/x', /%2F for "\/" in a user or password/],
    ['ssh://example.com/a@[evil.example]:22/x', /has "@" in its path/],
    ['ssh://example.com/a%40[evil.example]:22/x', /"@\[" in its path/],
    ['git://example.com/a%40%5Bevil.example]/x', /"@\[" in its path/],
  ]
  for (const [text, fault] of faults) assert.match(refusal(text), fault, JSON.stringify(text))
})

const piece = fc.constantFrom(
  ...[
    'https://',
    'ssh://',
    'git://',
    'http://',
    '/',
    '//',
    ':',
    '@',
    '[',
    ']',
    '@[',
    '.',
    '..',
    '~',
    '-',
    '%',
  ],
  ...[
    '%40',
    '%5b',
    '%5D',
    '%2f',
    '%3A',
    '%00',
    '%c3%a4',
    '?',
    '#',
    '\\',
    ' ',
    '\n',
    '\0',
    '::',
    '::1',
    '127.1',
  ],
  ...[
    'a',
    'example.com',
    '.git',
    '22',
    '65536',
    'é',
    '。',
    '\ud800',
    'git',
    'evil',
    '[::1]',
    '+',
    '=',
  ],
)
const anyText = fc.oneof(
  fc.array(piece, { maxLength: 12 }).map((all) => all.join('')),
  fc.string({ unit: character }),
  fc.webUrl({ withQueryParameters: true, withFragments: true }),
)

test('any text is an address or rejected with a Problem', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const source = attempt(text) ?? attempt(`ssh://${text}`) ?? attempt(`https://a${text}`)
      if (!source) return assert.ok(refusal(text))
      if (source.nameHint !== undefined) assert.ok(isRepositoryName(source.nameHint))
      if (source.kind === 'local') return assert.deepEqual(parseSource(source.path), source)
      const { username: _, password: __, ...plain } = remote(source.shown)
      assert.deepEqual({ ...source, ...plain }, source, 'what is shown means the same')
    }),
    { numRuns: toRounds(1000) },
  )
})

test('neither a shown address nor an error contains the password', () => {
  const secret = fc.stringMatching(/^[\w.~!$&'()*+,;=:-]{0,8}$/).map((text) => `pa55${text}`)
  fc.assert(
    fc.property(secret, fc.array(piece, { maxLength: 6 }), fc.nat(6), (password, pieces, place) => {
      const rest = pieces.join('')
      const texts = [
        ...[`https://ada:${password}@example.com/${rest}`, `https://ada:${password}@${rest}`],
        ...[`https://${password}@example.com/${rest}`, `ssh://git:${password}@example.com:${rest}`],
        ...[`ada:${password}@example.com:${rest}`, `ftp://ada:${password}@${rest}`],
        `${rest}https://${password}@example.com/x`,
      ]
      const text = texts[place] ?? ''
      const source = attempt(text)
      if (!source) return assert.ok(!refusal(text).includes(password), refusal(text))
      if (source.kind === 'local') return
      assert.ok(!source.shown.includes(password), source.shown)
      assert.ok(!JSON.stringify(source).includes(password))
    }),
    { numRuns: toRounds(400) },
  )
})

function attempt(text: string) {
  try {
    return parseSource(text)
  } catch (error) {
    assert.ok(error instanceof Problem, String(error))
    return undefined
  }
}
