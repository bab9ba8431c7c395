import { once } from 'node:events'
import { git, spawnGit, temporaryFolder } from './git.ts'
import { begun, jobEnded, mustClaim, runEnded, wrote } from './run-by-hand.ts'
import { archiveOf, put } from './run-files.ts'
import type { Client, Service } from './service.ts'
import { newKeyLine } from './ssh-keys.ts'

/** Texts that run, leave or break a page which does not escape them. What runs calls `ran`. */
export const payloads = [
  '<script>ran(1)</script>',
  '"><img src=x onerror=ran(1)>',
  "'><svg onload=ran(1)>",
  '" onmouseover="ran(1)" autofocus onfocus="ran(1)" x="',
  '</title></textarea></style><script>ran(1)</script>',
  '<a href="javascript:ran(1)">javascript:ran(1)</a>',
  '<meta http-equiv=refresh content="0;url=http://evil.example/">',
  '<link rel=stylesheet href=http://evil.example/><style>*{display:none}</style>',
  '<template><form action=http://evil.example/><input name=x></template>',
  '<!--><iframe srcdoc="<script>ran(1)</script>">',
  '{{constructor.constructor("ran(1)")()}} ${ran(1)} <%= ran(1) %>',
  '%0d%0aSet-Cookie:%20svc=evil',
  '&lt;script&gt;ran(1)&lt;/script&gt; &#x3c;script&#x3e;',
  '\u202egnp.exe\u2066\u200b\ufeff',
  'x'.repeat(180),
]

export const allPayloads = payloads.join(' ')

// Names of workflows, jobs and steps have at most 200 characters.
const label = payloads.slice(0, 5).join(' ')

// Each part of a path is one of them.
const pathPayloads = payloads.map((text) => text.replaceAll('/', '\u2215'))

const refPayloads = [
  '<script>ran(1)</script>',
  '"><img/src=x/onerror=ran(1)>',
  '"onmouseover="ran(1)',
  "'onfocus='ran(1)'autofocus='",
  'javascript/ran(1)',
  '%0d%0aSet-Cookie',
  '\u202egnp.exe',
  'a/-/b',
]

const readme = `# ${payloads[1]}

${payloads.join('\n\n')}

[one](javascript:ran(1)) [two](data:text/html,<script>ran(1)</script>) [three](vbscript:ran(1)) [four](//evil.example/)
[five](<java\tscript:ran(1)>) [six](&#x6a;avascript:ran(1)) [seven](http://evil.example/ "x\\" onmouseover=ran(1)")
![pixel](http://evil.example/pixel.png) ![inline](data:image/svg+xml,<svg/onload=ran(1)>) ![x" onerror="ran(1)](x.png)
<javascript:ran(1)> <http://evil.example/?"onmouseover=ran(1)>

<img src=http://evil.example/pixel.png srcset="http://evil.example/2x.png 2x" onerror=ran(1)>
<a id=content name=content href=" javascript:ran(1)" ping=http://evil.example/ target=_top style="position:fixed;inset:0">a</a>
<base href=http://evil.example/> <form action=http://evil.example/ id=top><button formaction=javascript:ran(1)>Go</button></form>
<svg><a xlink:href="javascript:ran(1)"><text>x</text></a><animate onbegin=ran(1)></svg>
<math><mtext><table><mglyph><style><img src=x onerror=ran(1)></style></mglyph></table></mtext></math>
<iframe src=http://evil.example/></iframe><object data=http://evil.example/></object><embed src=http://evil.example/>
<video src=http://evil.example/ poster=http://evil.example/ onloadstart=ran(1)></video><details open ontoggle=ran(1)>x</details>
<noscript><p title="</noscript><img src=x onerror=ran(1)>"></noscript>

\`\`\`"><script>ran(1)</script>
${payloads[0]}
\`\`\`

| ${payloads[0]} | b |
|---|---|
| \`${payloads[1]}\` | ${payloads[4]} |
`

const svg = `<svg xmlns="http://www.w3.org/2000/svg" onload="ran(1)"><script>ran(1)</script><image href="http://evil.example/"/></svg>`
const page = `<!doctype html><script>ran(1)</script><meta http-equiv=refresh content="0;url=http://evil.example/">`

const files: [path: string, content: string][] = [
  ['README.md', readme],
  ['docs/README.md', readme],
  ['evil.svg', svg],
  ['evil.html', page],
  ['evil.png', page],
  ['evil.css', `@import "http://evil.example/"; ${payloads[4]}`],
  ['evil.js', `ran(1) // ${allPayloads}`],
  ['evil.json', JSON.stringify(payloads)],
  ['</title><script>ran(1)</script>', 'a path with slashes\n'],
  ['line\nfeed', 'x\n'],
  ['tab\there', `\u001b[31m\u0007\u0000${allPayloads}`],
  ...pathPayloads.map((path): [string, string] => [`names/${path}`, `${path}\n`]),
]

/** A commit as git-fast-import(1) takes it. */
function toCommit(mark: number, message: string, changes: [string, string][]): string {
  const who = `"onload="ran(1)&lt; ${'\u202e'}x <"onload="ran(1)@evil.example> ${1_700_000_000 + mark} +0000`
  return [
    `commit refs/heads/main\nmark :${mark}\nauthor ${who}\ncommitter ${who}`,
    toData(message),
    ...(mark > 1 ? [`from :${mark - 1}`] : []),
    ...changes.map(([path, content]) => `M 100644 inline ${quoted(path)}\n${toData(content)}`),
  ].join('\n')
}

function toData(text: string): string {
  return `data ${Buffer.byteLength(text)}\n${text}`
}

function quoted(path: string): string {
  return `"${path.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n')}"`
}

/** Pushes the hostile history with its branches and tags. */
async function pushHostile(client: Client, name: string): Promise<void> {
  await using folder = await temporaryFolder()
  await git(folder.path, ['init', '--quiet', '--initial-branch=main'])
  const stream = [
    toCommit(1, `${allPayloads}\n\n${payloads.join('\n')}\n\nSigned-off-by: ${payloads[1]}`, files),
    toCommit(2, payloads[0] ?? '', [
      ['README.md', `${readme}\n${allPayloads}\n`],
      ['evil.js', `ran(2) // ${allPayloads}`],
      [`names/${pathPayloads[1]}`, 'changed\n'],
      [
        '.svc/workflows/ci.yml',
        `name: ${JSON.stringify(label)}\nsteps:\n  - name: ${JSON.stringify(label)}\n    run: 'true'\n`,
      ],
    ]),
    ...refPayloads.flatMap((ref, index) => [
      `reset refs/heads/${ref}\nfrom :1\n`,
      `tag ${ref}\nfrom :2\ntagger "onload="ran(1) <x> ${1_700_000_100 + index} +0000\n${toData(allPayloads)}`,
    ]),
  ].join('\n')
  const child = spawnGit(folder.path, ['fast-import', '--quiet'])
  child.stderr.pipe(process.stderr)
  child.stdin.end(`${stream}\n`)
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`git fast-import: ${code}`)
  const remote = client.remote(name)
  // The old tip first, so that there is a push to compare.
  await git(folder.path, ['push', '--quiet', remote, 'main~1:refs/heads/main'])
  await git(folder.path, ['push', '--quiet', '-o', payloads[0] ?? '', remote, '--all'])
  await git(folder.path, ['push', '--quiet', remote, '--tags'])
  await git(folder.path, ['push', '--quiet', remote, '+main~1:refs/heads/forced'])
}

/** A run whose jobs, steps, log, summary and runner are hostile. */
async function runHostile(client: Client, runner: Client, name: string): Promise<void> {
  const { status, body } = await client.post(`/repos/${name}/workflows`, {})
  if (status !== 202) throw new Error(JSON.stringify(body))
  const held = await mustClaim(runner)
  // Names that are refused are no page's concern.
  for (const text of ['plain', ...payloads]) {
    await put(held, `artifacts?${new URLSearchParams({ name: text })}`, archiveOf('a', 'a'))
    await put(
      held,
      `caches?${new URLSearchParams({ key: text, version: 'v' })}`,
      archiveOf('a', 'a'),
    )
  }
  await held.report(
    ...begun({ id: 'x', name: label }),
    wrote(`${payloads.join('\n')}\n\u001b[31mred\u001b[0m \u001b]8;;javascript:ran(1)\u0007x\n`),
    { kind: 'output', step: 0, text: `::error file=${payloads[1]}::${allPayloads}\n` },
    ...jobEnded('failure', { outputs: { [payloads[0] ?? '']: allPayloads } }),
    runEnded('failure', allPayloads),
  )
}

/** Proposes a branch, in two versions. */
async function proposeHostile(client: Client, name: string): Promise<void> {
  const [branch = ''] = refPayloads
  const message = `${allPayloads}\n\n[skip ci]`
  const proposal = {
    ...{ source: branch, target: 'main' },
    ...{ title: allPayloads.slice(0, 250), description: readme },
  }
  for (const [path, body] of [
    ['commits', { branch, message, changes: [{ path: 'proposed', content: allPayloads }] }],
    ['changes', proposal],
    ['changes/1/comments', { text: readme, path: 'proposed', line: 1 }],
    ['changes/1/comments', { text: allPayloads }],
    ['commits', { branch, message, changes: [{ path: 'proposed', content: readme }] }],
  ] as const) {
    const { status, text } = await client.post(`/repos/${name}/${path}`, body)
    if (status !== 201) throw new Error(text)
  }
}

/** Makes a repository in which everything that a user can name is a payload, and its owner. */
export async function createHostileRepository(
  service: Service,
  { name, receiver }: { name: string; receiver: string },
): Promise<{ owner: Client; refused: string[] }> {
  const refused: string[] = []
  /** What the API does not take is no page's concern. */
  const attempt = async (call: Promise<{ status: number; text: string }>, what: string) => {
    const { status } = await call
    if (status >= 400) refused.push(`${what}: ${status}`)
  }
  const owner = await service.client({ username: 'owner', permissions: ['admin'] })
  const runner = await service.client({ permissions: ['runner'] })
  await owner.post('/repos', { name })
  await pushHostile(owner, name)
  await proposeHostile(owner, name)
  const at = `/repos/${name}`
  await attempt(owner.patch(at, { description: allPayloads.slice(0, 300) }), 'description')
  for (const [index, text] of payloads.entries()) {
    await attempt(owner.post('/tokens', { name: text.slice(0, 100), username: 'owner' }), 'token')
    await attempt(owner.post('/tokens', { name: 'x', username: text.slice(0, 64) }), 'username')
    const key = { name: text.slice(0, 100), publicKey: newKeyLine() }
    if (index < 5) await attempt(owner.post('/keys', key), 'key')
    const secret = encodeURIComponent(text.slice(0, 60))
    await attempt(owner.put(`${at}/secrets/${secret}`, { value: text }), 'secret')
    await attempt(
      owner.post(`${at}/collaborators`, { username: text.slice(0, 64) }),
      'collaborator',
    )
    const branch = encodeURIComponent(refPayloads[index % refPayloads.length] ?? '')
    const requires = [{ status: text.replace(/\p{Cc}/gu, '').slice(0, 200) }]
    await attempt(owner.put(`${at}/protections/branches/${branch}`, { requires }), 'protection')
  }
  const url = `${receiver}?x=${encodeURIComponent(allPayloads).slice(0, 800)}`
  const hook = await owner.post(`${at}/webhooks`, {
    url,
    events: ['push', 'workflow'],
    secret: 'x',
  })
  if (hook.status === 201) await owner.post(`${at}/webhooks/${hook.body.id}/ping`)
  await runHostile(owner, runner, name)
  return { owner, refused }
}

/** A receiver's response in which everything is a payload. */
export const hostileAnswer = {
  headers: { 'content-type': 'text/html', 'x-evil': '"><script>ran(1)</script>' },
  body: page + allPayloads,
}

export const hostileUserAgent = '"><script>ran(1)</script> \' onmouseover=ran(1)'
