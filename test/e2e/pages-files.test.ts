import assert from 'node:assert/strict'
import { hash, randomBytes } from 'node:crypto'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createProject, type Project } from '../support/git.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service
let client: PageClient
let project: Project

const deep = 'd/'.repeat(1000)
const mib = 1024 * 1024

before(async () => {
  service = await startService()
  client = await logIn(service.url, service.adminToken)
  await service.admin.post('/repos', { name: 'site' })
  project = await createProject()
  const files: Record<string, string | Buffer> = {
    'code.ts': 'let a = 1\nlet b = "\u202e<b>"\n',
    'slow.c': 'a'.repeat(900).concat('\n').repeat(44),
    'long.js': `let x = "${'y'.repeat(2000)}"\n`,
    'page.html': '<script>alert(1)</script>\n',
    'picture.svg': '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    'picture.png': Buffer.from('89504e470d0a1a0a00', 'hex'),
    'data.bin': Buffer.from([0, 1, 2, 255]),
    'latin.txt': Buffer.from('caf\xe9\n', 'latin1'),
    'late-latin.txt': Buffer.from(`${'plain\n'.repeat(2000)}caf\xe9\n`, 'latin1'),
    'le.txt': Buffer.from('\ufeffcaf\u00e9\n', 'utf16le'),
    'be.txt': Buffer.from('\ufeffcaf\u00e9\n', 'utf16le').swap16(),
    'large.txt': 'x'
      .repeat(99)
      .concat('\n')
      .repeat(Math.ceil(mib / 100) + 100),
    'lines.txt': '\n'.repeat(20_001),
    'hidden.txt': '\u001b\u0001'.repeat(200_000),
    'overrides.ts': `let a = "${'\u202e'.repeat(100_000)}"\n`,
    'mixed.txt': 'a\u0001'.repeat(200_000),
    'mixed.md': 'a\u202e'.repeat(50_000),
    'quotes.txt': '"'.repeat(mib - 1),
    'empty.txt': '',
    'notes.md': '# Notes\n\n<script>alert(1)</script>\n',
  }
  for (const [name, content] of Object.entries(files))
    await writeFile(join(project.path, name), content)
  await mkdir(join(project.path, deep), { recursive: true })
  await writeFile(join(project.path, deep, 'file.txt'), 'x\n')
  await symlink('code.ts', join(project.path, 'inside'))
  await symlink('/etc/passwd', join(project.path, 'outside'))
  for (const [folder, target] of [
    ['linked', '../notes.md'],
    ['linked-outside', '../../notes.md'],
    ['linked-twice', '../inside'],
  ] as const) {
    await mkdir(join(project.path, folder))
    await symlink(target, join(project.path, folder, 'README.md'))
  }
  await project.git('add', '-A')
  await project.git('commit', '-qm', 'Add files')
  await project.git('push', '-q', service.admin.remote('site'), 'HEAD:main')
})

after(async () => {
  await project[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const page = async (name: string) => {
  const { status, text } = await client.get(`/r/site/src/main:${name}`)
  assert.equal(status, 200, name)
  return text
}

test('code is highlighted, in numbered lines, and what hides shows', async () => {
  const text = await page('code.ts')
  assert.match(text, /<span id="L1"><span class="h-keyword">let<\/span>/)
  assert.match(text, /<span class="unseen">U\+202E<\/span>&lt;b&gt;/)
  assert.match(text, /2 lines · \d+ bytes/)
  const commit = await project.git('rev-parse', 'HEAD')
  assert.match(text, new RegExp(`/r/site/src/${commit}:code.ts`))
})

test('blame is highlighted as the file is, and what hides shows', async () => {
  const { text } = await client.get('/r/site/blame/main:code.ts')
  assert.match(text, /<td data-n="1"><td><span class="h-keyword">let<\/span>/)
  assert.match(text, /<span class="unseen">U\+202E<\/span>&lt;b&gt;/)
  for (const name of ['slow.c', 'overrides.ts']) {
    const slow = await client.get(`/r/site/blame/main:${name}`)
    assert.equal(slow.status, 200, name)
    assert.doesNotMatch(slow.text, /class="h-/, name)
  }
})

test('what is slow or long is text', async () => {
  assert.doesNotMatch(await page('slow.c'), /class="h-/)
  assert.doesNotMatch(await page('long.js'), /class="h-/)
})

test('documents are read, and their source with ?plain', async () => {
  assert.match(await page('notes.md'), /<h2 id="u-notes"><a [^>]*><\/a>Notes<\/h2>/)
  assert.match(await page('notes.md?plain'), /<span id="L3">.*&lt;.*script/)
})

test('the page of a file is in proportion to it', async () => {
  const names = ['hidden.txt', 'overrides.ts', 'mixed.txt', 'mixed.md', 'mixed.md?plain']
  for (const name of names) {
    const text = await page(name)
    assert.ok(text.length < 1_200_000, `${name}: ${text.length}`)
    assert.match(text, /<span class="unseen">U\+/, name)
    assert.equal(/at the first 5,000 places/.test(text), name.startsWith('mixed'), name)
  }
  assert.match(await page('hidden.txt'), /U\+001B U\+0001 U\+001B U\+0001 and 399996 more/)
  const quotes = await page('quotes.txt')
  assert.match(quotes, /too much text to show/)
  assert.match(quotes, /href="\/r\/site\/raw\/main:quotes.txt"/)
})

test('a path of many folders has its first and last ones above the page', async () => {
  for (const path of [`${deep}file.txt`, deep.slice(0, -1)]) {
    const text = await page(path)
    assert.match(text, /<span>… 98[78] folders …<\/span>/)
    assert.ok(text.length < 120_000, `${text.length}`)
  }
})

test('what cannot be shown says why, and is downloaded', async () => {
  assert.match(await page('data.bin'), /This is a binary file/)
  assert.match(await page('large.txt'), /too large to show/)
  assert.match(await page('lines.txt'), /too much text to show/)
  assert.match(await page('empty.txt'), /This file is empty/)
  assert.match(await page('picture.png'), /<img src="\/r\/site\/raw\/main:picture.png"/)
})

test('text in other encodings is shown, with the encoding that is taken', async () => {
  for (const [name, encoding] of [
    ['latin.txt', 'WINDOWS-1252'],
    ['late-latin.txt', 'WINDOWS-1252'],
    ['le.txt', 'UTF-16LE'],
    ['be.txt', 'UTF-16BE'],
  ] as const) {
    const text = await page(name)
    assert.match(text, /caf\u00e9/, name)
    assert.match(text, new RegExp(`shown as ${encoding}`), name)
  }
  assert.doesNotMatch(await page('code.ts'), /shown as/)
})

test('a README that is a symbolic link shows the document that it leads to', async () => {
  for (const [folder, expected] of [
    ['linked', /class="card readme"[\s\S]*Notes/],
    ['linked-outside', undefined],
    ['linked-twice', undefined],
  ] as const) {
    const { status, text } = await client.get(`/r/site/src/main:${folder}`)
    assert.equal(status, 200)
    if (expected) assert.match(text, expected)
    else assert.doesNotMatch(text, /class="card readme"/)
  }
})

test('a symbolic link leads to files of the repository alone', async () => {
  assert.match(await page('inside'), /Symbolic link to <a href="\/r\/site\/src\/main:code.ts">/)
  assert.match(await page('outside'), /Symbolic link to <code>\/etc\/passwd<\/code>/)
})

test('raw files are never HTML, and can do nothing', async () => {
  const types: [string, string, RegExp][] = [
    ['code.ts', 'text/plain; charset=utf-8', /^inline$/],
    ['page.html', 'text/plain; charset=utf-8', /^inline$/],
    ['picture.svg', 'image/svg+xml', /^inline$/],
    ['picture.png', 'image/png', /^inline$/],
    ['data.bin', 'application/octet-stream', /^attachment; filename\*=UTF-8''data.bin$/],
    ['large.txt', 'text/plain; charset=utf-8', /^inline$/],
  ]
  for (const [name, type, disposition] of types) {
    const { status, headers } = await client.get(`/r/site/raw/main:${name}`)
    assert.equal(status, 200, name)
    assert.equal(headers.get('content-type'), type)
    assert.match(headers.get('content-disposition') ?? '', disposition)
    assert.match(headers.get('content-security-policy') ?? '', /default-src 'none'.*sandbox/)
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
  }
})

test('a large raw file has all its bytes', async () => {
  const { text, headers } = await client.get('/r/site/raw/main:large.txt')
  assert.equal(text.length, (Math.ceil(mib / 100) + 100) * 100)
  assert.equal(headers.get('content-length'), String(text.length))
})

test('files in Git LFS are shown and downloaded as their objects', async () => {
  const { admin, url, adminToken } = service
  const idOf = (content: Buffer | string) => hash('sha256', content)
  const upload = async (content: Buffer | string) => {
    const { status } = await fetch(`${url}/repos/site.git/info/lfs/objects/${idOf(content)}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${adminToken}` },
      body: content,
    })
    assert.equal(status, 200)
  }
  const commitPointers = async (files: Record<string, Buffer | string>) => {
    for (const [name, content] of Object.entries(files)) {
      const lines = ['version https://git-lfs.github.com/spec/v1', `oid sha256:${idOf(content)}`]
      await writeFile(
        join(project.path, name),
        [...lines, `size ${Buffer.byteLength(content)}`, ''].join('\n'),
      )
    }
    await project.git('add', '-A')
    await project.git('commit', '-qm', 'Change large files')
    return project.git('rev-parse', 'HEAD')
  }
  const [image, script] = [randomBytes(3000), `<script>${'x'.repeat(2000)}</script>`]
  const binary = randomBytes(mib + 1)
  await project.git('switch', '-qc', 'lfs')
  // Otherwise, pointers to missing objects would be refused.
  await project.commit('.lfsconfig', '[lfs]\n\turl = https://lfs.example.com/site\n')
  const files = { 'lfs.png': image, 'lfs.html': script, 'lfs.bin': binary, 'README.md': '# Lost' }
  const first = await commitPointers(files)
  for (const content of [image, script, binary]) await upload(content)
  const second = await commitPointers({ 'lfs.png': binary, 'lfs.html': '<p>' })
  for (const name of ['site', 'other']) {
    await admin.post('/repos', { name })
    await project.git('push', '-q', admin.remote(name), 'lfs')
  }
  const view = async (path: string) => (await client.get(`/r/site/src/${path}`)).text

  const shown = await view(`${first}:lfs.png`)
  assert.match(shown, /2\.9 KiB · Git LFS/)
  assert.match(shown, new RegExp(`<img src="/r/site/raw/${first}:lfs.png"`))
  assert.match(
    await view(`${first}:lfs.png?plain`),
    /pointer of Git LFS.*raw\/\w+:lfs.png\?plain"/s,
  )
  assert.match(
    await view('lfs:lfs.bin'),
    /This file is in Git LFS\..*"\/r\/site\/raw\/lfs:lfs.bin"/s,
  )
  const raw = async (path: string, headers = {}) => {
    const answer = await fetch(`${url}/r/site/raw/${path}`, {
      headers: { cookie: client.cookie(), ...headers },
    })
    return {
      ...answer,
      headers: answer.headers,
      status: answer.status,
      bytes: Buffer.from(await answer.arrayBuffer()),
    }
  }
  for (const [path, content, type, disposition] of [
    [`${first}:lfs.png`, image, 'image/png', 'inline'],
    [`${first}:lfs.html`, script, 'text/plain; charset=utf-8', 'inline'],
    ['lfs:lfs.bin', binary, 'application/octet-stream', "attachment; filename*=UTF-8''lfs.bin"],
  ] as const) {
    const { status, headers, bytes } = await raw(path)
    assert.ok(bytes.equals(Buffer.from(content)), path)
    assert.deepEqual(
      [status, headers.get('content-type'), headers.get('content-disposition')],
      [200, type, disposition],
    )
    assert.match(headers.get('content-security-policy') ?? '', /sandbox/)
    const known = { 'if-none-match': headers.get('etag') ?? '' }
    assert.equal((await raw(path, known)).status, 304)
  }
  assert.match((await raw(`${first}:lfs.png?plain`)).bytes.toString(), /^version https/)

  // That another repository has an object makes no difference.
  const elsewhere = await client.get(`/r/other/src/${first}:lfs.png`)
  assert.match(elsewhere.text, /the repository does not have its object/)
  assert.equal((await client.get(`/r/other/raw/${first}:lfs.png`)).status, 404)
  assert.doesNotMatch(await view('lfs'), /git-lfs\.github/)
  // A page shows an object that is uploaded later, also where it shows a commit by its id.
  for (const rev of ['lfs', second])
    assert.match(await view(`${rev}:lfs.html`), /does not have its object/)
  await upload('<p>')
  for (const rev of ['lfs', second])
    assert.match(await view(`${rev}:lfs.html`), /3 bytes · Git LFS/)
  const { text: diff } = await client.get(`/r/site/commit/${second}`)
  assert.match(diff, /Git LFS: 2\.9 KiB → 1 MiB/)
  assert.match(diff, new RegExp(`<img src="/r/site/raw/${second}:lfs.png"`))
  const path = `/repos/site/file?rev=${first}&path=lfs.png`
  const answer = await fetch(url + path, {
    headers: { accept: 'application/json', authorization: `Bearer ${adminToken}` },
  })
  const { lfs } = (await answer.json()) as { lfs: unknown }
  assert.deepEqual(lfs, { oid: idOf(image), size: 3000, isStored: true })
  assert.match((await admin.get(path)).text, /^version https/)
})
