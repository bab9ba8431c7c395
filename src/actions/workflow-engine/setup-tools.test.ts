import assert from 'node:assert/strict'
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { without } from '../../../test/support/programs.ts'
import { createToolCache } from '../../../test/support/tool-cache.ts'

const skip = without('bubblewrap') || without('python')

let cache: Awaited<ReturnType<typeof createToolCache>>
let engine: Engine

before(async () => {
  cache = await createToolCache(
    {
      'node/20.1.0/x64/bin/node': 'echo v20.1.0',
      'node/22.3.0/x64/bin/node': 'echo v22.3.0',
      'node/23.0.0/x64/bin/node': 'echo v23.0.0',
      'Python/3.9.1/x64/bin/python3': 'echo Python 3.9.1',
      'Python/3.14.0/x64-freethreaded/bin/python3': 'echo Python 3.14.0',
      'go/1.21.5/x64/bin/go': 'echo "go version go1.21.5 linux/amd64"',
      'go/1.22.2/x64/bin/go': 'echo "go version go1.22.2 linux/amd64"',
      'Java_Temurin-Hotspot_jdk/17.0.9-9/x64/bin/java': 'echo temurin 17',
      'Java_Zulu_jdk/11.0.2-7/x64/bin/java': 'echo zulu 11',
      'Java_GraalVM_jdk/21.0.1-12/x64/bin/java': 'echo graal 21',
      'Ruby/3.2.2/x64/bin/ruby': 'echo ruby 3.2.2',
      'Ruby/3.2.2/x64/bin/bundle': 'echo "bundle $*"',
      'rust/1.75.0/x64/bin/rustc': 'echo rustc 1.75.0',
      'dotnet/8.0.101/x64/dotnet': 'echo 8.0.101',
      'pnpm/9.1.0/x64/bin/pnpm': 'echo "pnpm $*"',
      'bun/1.1.3/x64/bun': 'echo 1.1.3',
      'deno/1.40.0/x64/deno': 'echo deno 1.40.0',
      'uv/0.4.0/x86_64/uv': 'echo uv 0.4.0',
      'node/21.0.0/arm64/bin/node': 'echo v21.0.0',
    },
    { incomplete: ['node/23.0.0/x64/bin/node'] },
  )
  engine = await startEngine({ tools: [cache.path] })
})

after(async () => {
  await engine[Symbol.asyncDispose]()
  await cache[Symbol.asyncDispose]()
})

/** Runs the steps of a job, given in the flow style of YAML. */
function runSteps(steps: string[], files: Record<string, string> = {}, strategy = '') {
  const lines = steps.map((step) => `      - ${step}\n`).join('')
  const workflows = `on: push\njobs:\n  build:\n${strategy}    steps:\n${lines}`
  return engine.run({ workflows, files })
}

const setUp = (action: string, inputs = '{}') => `{ id: set, uses: '${action}', with: ${inputs} }`

test('each version of a matrix gets its tool', { skip }, async () => {
  const result = await runSteps(
    [
      setUp('actions/setup-node@v4', "{ node-version: '${{ matrix.node }}' }"),
      "{ name: show, run: 'node --version; echo $RUNNER_TOOL_CACHE ${{ steps.set.outputs.node-version }}' }",
    ],
    {},
    '    strategy: { matrix: { node: [20, 22.x, lts/iron] } }\n',
  )
  assert.equal(result.conclusion, 'success', result.log)
  const folder = cache.path
  assert.deepEqual(
    result.steps.filter(({ name }) => name === 'show').map(({ output }) => output),
    [20.1, 22.3, 20.1].map((n) => `v${n}.0\n${folder} v${n}.0\n`),
  )
  assert.equal(result.steps[0]?.name, 'Run actions/setup-node')
  assert.match(
    result.steps[0]?.output ?? '',
    /20\.1\.0 found in the tool cache: .*\/node\/20\.1\.0\/x64\n/,
  )
})

const examples: Record<string, [step: string, show: string, output: string]> = {
  go: [
    setUp('actions/setup-go@v5', "{ go-version: '1.21' }"),
    'go version; echo $GOROOT $SET',
    'go version go1.21.5 linux/amd64\nTOOLS/go/1.21.5/x64 go-version=1.21.5\n',
  ],
  'go, oldstable': [
    setUp('actions/setup-go@v5', '{ go-version: oldstable }'),
    'go version',
    'go version go1.21.5 linux/amd64\n',
  ],
  python: [
    setUp('actions/setup-python@v5', "{ python-version: '>=3.8 <3.10', cache: pip }"),
    'python3; echo $pythonLocation $LD_LIBRARY_PATH; echo $PATH | cut -d: -f1-3',
    'Python 3.9.1\nTOOLS/Python/3.9.1/x64 TOOLS/Python/3.9.1/x64/lib\nTOOLS/Python/3.9.1/x64/bin:TOOLS/Python/3.9.1/x64:/home/runner/.local/bin\n',
  ],
  java: [
    setUp('actions/setup-java@v4', "{ distribution: temurin, java-version: '17' }"),
    'java; echo $JAVA_HOME; [ "$JAVA_HOME" = "$JAVA_HOME_17_X64" ]; echo $SET',
    'temurin 17\nTOOLS/Java_Temurin-Hotspot_jdk/17.0.9-9/x64\nversion=17.0.9+9\n',
  ],
  'java of another build of OpenJDK': [
    setUp('actions/setup-java@v4', "{ distribution: temurin, java-version: '11' }"),
    'java',
    'zulu 11\n',
  ],
  'java, of two versions the last': [
    setUp('actions/setup-java@v4', '{ distribution: zulu, java-version: "11\\n17" }'),
    'java; echo $JAVA_HOME_11_X64',
    'temurin 17\nTOOLS/Java_Zulu_jdk/11.0.2-7/x64\n',
  ],
  ruby: [
    setUp('ruby/setup-ruby@v1', "{ ruby-version: '3.2', bundler-cache: true }"),
    'ruby; echo $GEM_HOME',
    'ruby 3.2.2\n/home/runner/.gem/ruby-3.2.2\n',
  ],
  rust: [setUp('dtolnay/rust-toolchain@1.75'), 'rustc', 'rustc 1.75.0\n'],
  'rust, stable': [setUp('dtolnay/rust-toolchain@stable'), 'rustc', 'rustc 1.75.0\n'],
  'rust by actions-rs': [
    setUp('actions-rs/toolchain@v1', '{ toolchain: stable, override: true, profile: minimal }'),
    'rustc',
    'rustc 1.75.0\n',
  ],
  dotnet: [
    setUp('actions/setup-dotnet@v4', "{ dotnet-version: '8.0.x' }"),
    'dotnet; echo $DOTNET_ROOT',
    '8.0.101\nTOOLS/dotnet/8.0.101/x64\n',
  ],
  pnpm: [
    setUp('pnpm/action-setup@v4', '{ version: 9, run_install: true }'),
    'pnpm test; echo $PNPM_HOME',
    'pnpm test\n/home/runner/.local/share/pnpm\n',
  ],
  bun: [setUp('oven-sh/setup-bun@v2'), 'bun; echo $SET', '1.1.3\nbun-version=1.1.3\n'],
  deno: [setUp('denoland/setup-deno@v2', '{ deno-version: v1.x }'), 'deno', 'deno 1.40.0\n'],
  uv: [setUp('astral-sh/setup-uv@v5', "{ version: '0.4.x' }"), 'uv', 'uv 0.4.0\n'],
}

test('each action provides its tool, with the variables that it documents', { skip }, async () => {
  const versionOutputs = ['go-version', 'version', 'bun-version']
  const set = versionOutputs
    .map(
      (name) =>
        `\${{ steps.set.outputs.${name} && format('${name}={0}', steps.set.outputs.${name}) }}`,
    )
    .join('')
  for (const [name, [step, show, output]] of Object.entries(examples)) {
    const result = await runSteps([
      step,
      `{ name: show, run: ${JSON.stringify(show)}, env: { SET: "${set}" } }`,
    ])
    assert.equal(result.conclusion, 'success', `${name}\n${result.log}`)
    assert.equal(result.outputOf('show').replaceAll(cache.path, 'TOOLS'), output, name)
  }
})

test('inputs without effect on which later steps may rely are noted', { skip }, async () => {
  const inputs = '{ node-version: 20, cache: npm, check-latest: true, token: x }'
  const { steps } = await runSteps([setUp('actions/setup-node@v4', inputs)])
  assert.match(
    steps[0]?.output ?? '',
    /^cache has no effect: this step caches nothing; use actions\/cache\.\n20\.1\.0 found/,
  )
})

test('commands of an action run with its tool', { skip }, async () => {
  const ruby = await runSteps([
    setUp('ruby/setup-ruby@v1', '{ ruby-version: 3.2, bundler-cache: true }'),
  ])
  assert.match(
    ruby.steps[0]?.output ?? '',
    /\nbundle config --local path \/workspace\/vendor\/bundle\nbundle install --jobs 4\n$/,
  )
  const pnpm = await runSteps([setUp('pnpm/action-setup@v4', '{ run_install: true }')])
  assert.match(pnpm.steps[0]?.output ?? '', /\npnpm install\n$/)
})

test('a version of Python that ends in t is free-threaded', { skip }, async () => {
  const result = await runSteps([
    setUp('actions/setup-python@v5', '{ python-version: 3.14t }'),
    '{ name: show, run: python3 --version }',
  ])
  assert.equal(result.outputOf('show'), 'Python 3.14.0\n', result.log)
})

test('a version that the runner lacks fails the step with those that it has', {
  skip,
}, async () => {
  const refused: [step: string, fault: RegExp][] = [
    [
      setUp('actions/setup-node@v4', '{ node-version: 19 }'),
      /^This runner has no Node\.js "19" \(node-version\)\. It has 22\.3\.0, 20\.1\.0(; \S+ on its PATH)?\. Use one of these, or have the version added to a folder of SVC_TOOLS\.$/,
    ],
    // Its installation is not complete.
    [setUp('actions/setup-node@v4', '{ node-version: 23 }'), /^This runner has no Node\.js "23"/],
    [
      setUp('actions/setup-node@v4', '{ node-version: 20, architecture: arm64 }'),
      /^This runner has no Node\.js "20" \(node-version\) for arm64\./,
    ],
    [
      setUp('actions/setup-java@v4', '{ distribution: temurin, java-version: 21.0.1+12 }'),
      /^This runner has no Java "21\.0\.1\+12" .*Java_GraalVM_jdk 21\.0\.1\+12/,
    ],
    [
      setUp('actions/setup-java@v4', '{ distribution: mine, java-version: 21 }'),
      /^There is no distribution "mine"; use one of temurin, zulu,/,
    ],
    [
      setUp('actions/setup-node@v4', '{ node-version: lts/nothing }'),
      /^There is no release line lts\/nothing of Node\.js\.$/,
    ],
    [setUp('actions/setup-node@v4', '{ node-version: newest }'), /^"newest" is not a version\.$/],
    [
      setUp('actions/setup-python@v5', '{ python-version: pypy3.10 }'),
      /^This runner has no Python "pypy3\.10"/,
    ],
    [
      setUp('actions/setup-python@v5', '{ python-version: 3.13t }'),
      /^This runner has no Python "3\.13t"/,
    ],
    [
      setUp('ruby/setup-ruby@v1', '{ ruby-version: jruby-head }'),
      /^This runner has no Ruby "jruby-head"/,
    ],
    [
      setUp('ruby/setup-ruby@v1', '{ ruby-version: truffleruby-24.1 }'),
      /^This runner has no Ruby "truffleruby-24\.1"/,
    ],
    [setUp('ruby/setup-ruby@v1', '{ ruby-version: head }'), /^This runner has no Ruby "head"/],
  ]
  for (const [step, fault] of refused) {
    const result = await runSteps([step, '{ name: later, run: exit 1 }'])
    assert.match(result.steps[0]?.fault ?? result.log, fault)
    assert.equal(result.stepConclusions.later, 'skipped')
    assert.equal(result.conclusion, 'failure')
  }
})

test('a file of the project names the version', { skip }, async () => {
  const files = {
    '.nvmrc': 'v22\n',
    'package.json': '{ "engines": { "node": "20.x" } }',
    'go.mod': 'module x\n\ngo 1.20\n',
    'sub dir/go.mod': 'module x\n\ngo 1.22\n',
    '.ruby-version': 'ruby-3.2.2\n',
  }
  const result = await runSteps(
    [
      setUp('actions/setup-node@v4', '{ node-version-file: .nvmrc }').replace('set', 'one'),
      '{ name: one, run: node }',
      setUp('actions/setup-node@v4', '{ node-version-file: package.json }').replace('set', 'two'),
      '{ name: two, run: node }',
      // The minimum of go.mod is older than what there is.
      setUp('actions/setup-go@v5', '{ go-version-file: go.mod }').replace('set', 'three'),
      '{ name: three, run: go }',
      setUp('actions/setup-go@v5', '{ go-version-file: sub dir/go.mod }').replace('set', 'four'),
      '{ name: four, run: go }',
      setUp('ruby/setup-ruby@v1').replace('set', 'five'),
      '{ name: five, run: ruby }',
    ],
    files,
  )
  assert.equal(result.conclusion, 'success', result.log)
  const shown = ['one', 'two', 'three', 'four', 'five'].map(result.outputOf)
  assert.deepEqual(shown, [
    ...['v22.3.0\n', 'v20.1.0\n'],
    ...['go version go1.22.2 linux/amd64\n', 'go version go1.22.2 linux/amd64\n', 'ruby 3.2.2\n'],
  ])
})

test('a missing or hostile version file fails the step and reveals nothing', { skip }, async () => {
  await using outside = await temporaryFolder()
  await writeFile(join(outside.path, 'secret'), 'correct-horse\n')
  const inputs = (path: string) => `{ node-version-file: ${JSON.stringify(path)} }`
  const tries = [
    ['true', 'none'],
    [`ln -s ${join(outside.path, 'secret')} link`, 'link'],
    ['mkdir folder', 'folder'],
    ['mkfifo pipe', 'pipe'],
    ['ln -s /dev/zero zero', 'zero'],
    ['true', "'; echo correct-horse; '"],
    ['true', '-x'],
  ]
  for (const [prepare = '', path = ''] of tries) {
    const result = await runSteps([
      `{ run: ${JSON.stringify(prepare)} }`,
      setUp('actions/setup-node@v4', inputs(path)),
    ])
    assert.match(result.steps[1]?.fault ?? '', /^node-version-file: there is no file /, path)
    assert.doesNotMatch(result.steps[1]?.output ?? '', /correct-horse/)
  }
})

test('a tool of the machine is used when its version fits', { skip }, async () => {
  const python = setUp('actions/setup-python@v5', "{ python-version: '>=3.10' }")
  const result = await runSteps([
    python,
    `{ name: show, run: 'python --version; command -v python; python -c "import sys; print(sys.prefix != sys.base_prefix)"' }`,
    "{ name: outputs, run: 'echo ${{ steps.set.outputs.python-path }}' }",
  ])
  assert.equal(result.conclusion, 'success', result.log)
  assert.match(result.steps[0]?.output ?? '', /found on the runner's PATH: \/.*\/python3/)
  assert.match(
    result.outputOf('show'),
    /^Python 3\.\d+\.\d+\n(\/home\/runner\/\.python-3\S+\/bin\/python)\nTrue\n$/,
  )
  assert.match(result.outputOf('outputs'), /^\/home\/runner\/\.python-3\S+\/bin\/python\n$/)
})

test('a tool of the machine replaces one that an earlier step has set up', { skip }, async (t) => {
  const { steps } = await runSteps(["{ run: 'node --version || true' }"])
  const [, own = ''] = /^v(\S+)$/m.exec(steps[0]?.output ?? '') ?? []
  if (own === '') return t.skip('needs node in /usr')
  const result = await runSteps([
    setUp('actions/setup-node@v4', '{ node-version: 22 }'),
    setUp('actions/setup-node@v4', `{ node-version: ${own} }`).replace('set', 'other'),
    "{ name: show, run: 'node --version' }",
  ])
  assert.equal(result.outputOf('show'), `v${own}\n`)
})

test('steps cannot write to the tools', { skip }, async () => {
  const attacks = [
    'touch "$RUNNER_TOOL_CACHE/node/20.1.0/x64/bin/x"',
    'echo evil > "$RUNNER_TOOL_CACHE/node/20.1.0/x64/bin/node"',
    'rm -rf "$RUNNER_TOOL_CACHE/node"',
    'mkdir -p "$RUNNER_TOOL_CACHE/evil"',
    'mv "$RUNNER_TOOL_CACHE/node" "$RUNNER_TOOL_CACHE/nodes"',
    'chmod -R 777 "$RUNNER_TOOL_CACHE"',
  ]
  const result = await runSteps(
    attacks.map((attack) => `{ continue-on-error: true, run: ${JSON.stringify(attack)} }`),
  )
  for (const { exitCode } of result.steps) assert.notEqual(exitCode, 0)
  const after = await runSteps([
    setUp('actions/setup-node@v4', '{ node-version: 20 }'),
    '{ name: show, run: node }',
  ])
  assert.equal(after.outputOf('show'), 'v20.1.0\n')
})

test('a tool that is added while the runner runs is found', { skip }, async () => {
  await using own = await createToolCache({ 'node/18.0.0/x64/bin/node': 'echo v18.0.0' })
  await using other = await startEngine({ tools: [cache.path, own.path] })
  const workflows = `steps:\n  - { uses: actions/setup-node@v4, with: { node-version: 16 || 18 } }\n  - { name: show, run: node }\n`
  assert.equal((await other.run({ workflows })).outputOf('show'), 'v18.0.0\n')
  await own.copy('node/18.5.0/x64/bin/node', '/bin/true')
  const result = await other.run({ workflows })
  assert.match(result.steps[0]?.output ?? '', /^18\.5\.0 found in the tool cache/)
  await symlink('18.5.0', join(own.path, 'node/18'))
  assert.equal((await other.run({ workflows })).conclusion, 'success')
})

test('registry-url makes npm read the token from NODE_AUTH_TOKEN', { skip }, async () => {
  const inputs = "{ node-version: 20, registry-url: 'https://npm.example.com', scope: Acme }"
  const result = await runSteps([
    setUp('actions/setup-node@v4', inputs),
    '{ name: show, run: \'cat "$NPM_CONFIG_USERCONFIG"; echo $NODE_AUTH_TOKEN\' }',
  ])
  assert.equal(
    result.outputOf('show'),
    '//npm.example.com/:_authToken=${NODE_AUTH_TOKEN}\n@acme:registry=https://npm.example.com/\nXXXXX-XXXXX-XXXXX-XXXXX\n',
  )
})
