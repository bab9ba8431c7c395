/** A commit of a demonstration repository, which is pushed at once. */
export type DemoCommit = {
  hoursAgo: number
  author: string
  message: string
  /** Contents by path. */
  files: Record<string, string>
}

export type DemoRepository = {
  name: string
  description: string
  protects: string[]
  commits: DemoCommit[]
}

const day = 24
const week = 7 * day

const workflow = (test: string) => `name: Check and test
on: push
jobs:
  check:
    steps:
      - name: Set up
        run: sleep 0.3 && echo "ready"
      - name: Format and lint
        run: sleep 0.4 && echo "42 files checked, none to change"
      - name: Types
        run: sleep 0.5 && echo "no errors"
  test:
    needs: check
    steps:
      - name: Set up
        run: sleep 0.2 && echo "ready"
      - name: Tests
        run: ${test}
      - name: Report
        run: echo "coverage 94.1 %"
`

const passing = workflow('sh test/run.sh')

const testScript = (isBroken: boolean) => `#!/bin/sh
ok() { printf '\\033[32m✔\\033[0m %s \\033[90m(%s ms)\\033[0m\\n' "$1" "$2"; }
ok 'a tile at the seam has both halves' 12.4
ok 'an empty layer is a transparent tile' 3.1
sleep 0.6
ok 'two zoom levels agree on a coastline' 48.9
ok 'a request for a tile outside the world is refused' 1.2
sleep 0.4
${
  isBroken
    ? `printf '\\033[31m✖\\033[0m %s \\033[90m(%s ms)\\033[0m\\n' 'tiles of one version are byte-equal on every node' 3018.2
echo '  AssertionError: Expected values to be strictly equal: 2 !== 1'
echo '      at test/versions.test.ts:88:10'
exit 1`
    : `ok 'tiles of one version are byte-equal on every node' 31.7
echo; echo '5 tests passed'`
}
`

const tile = `import { encode } from './encode.ts'
import type { Layer } from './layers.ts'

const size = 256

/** The square of a layer that a tile shows, in metres. */
export function extentOf(zoom: number, x: number, y: number): [number, number, number, number] {
  const width = 40_075_016.68 / 2 ** zoom
  return [x * width, y * width, (x + 1) * width, (y + 1) * width]
}

/** Cuts a tile out of a layer. */
export function cut(layer: Layer, zoom: number, x: number, y: number): Buffer {
  const [left, top, right, bottom] = extentOf(zoom, x, y)
  const features = layer.within(left, top, right, bottom)
  return encode(features, size)
}
`

const tileWithSeam = tile
  .replace(
    'const size = 256\n',
    'const size = 256\n// Features at the edge are drawn by both tiles, so that no seam shows.\nconst seam = 4\n',
  )
  .replace(
    'const features = layer.within(left, top, right, bottom)\n  return encode(features, size)',
    'const margin = ((right - left) * seam) / size\n  const features = layer.within(left - margin, top - margin, right + margin, bottom + margin)\n  return encode(features, size, seam)',
  )

const encode = `import type { Feature } from './layers.ts'

/** Encodes features as a vector tile: version 2.1 of the specification. */
export function encode(features: Feature[], size: number): Buffer {
  const parts = features.map(({ id, points }) => {
    const scaled = points.map(([x, y]) => [Math.round(x * size), Math.round(y * size)])
    return Buffer.from(JSON.stringify([id, scaled]))
  })
  return Buffer.concat(parts)
}
`

const encodeWithSeam = encode
  .replace('size: number): Buffer', 'size: number, seam = 0): Buffer')
  .replace(
    'Math.round(x * size), Math.round(y * size)',
    'Math.round(x * size) + seam, Math.round(y * size) + seam',
  )

const layers = `export type Feature = { id: string; points: [number, number][] }

/** Features in an order in which neighbours are close to each other. */
export class Layer {
  readonly #features: Feature[]

  constructor(features: Feature[]) {
    this.#features = features
  }

  within(left: number, top: number, right: number, bottom: number): Feature[] {
    return this.#features.filter(({ points }) =>
      points.some(([x, y]) => x >= left && x < right && y >= top && y < bottom),
    )
  }
}
`

const atlasReadme = `# atlas

Cuts vector tiles from layers, and serves them.

- **Deterministic**: a tile of one version is byte-equal on every node.
- **No seams**: features at an edge are drawn by both tiles.

\`\`\`sh
npm ci && npm start
curl http://127.0.0.1:9000/tiles/coast/4/8/5
\`\`\`
`

const atlas: DemoCommit[] = [
  {
    hoursAgo: 12 * week,
    author: 'Ada',
    message: 'Cut tiles from layers',
    files: {
      'README.md': '# atlas\n',
      'src/tile.ts': tile,
      'src/layers.ts': layers,
      'src/encode.ts': encode,
      LICENSE: 'MIT\n',
      'package.json': '{\n  "name": "atlas",\n  "type": "module"\n}\n',
    },
  },
  {
    hoursAgo: 11 * week,
    author: 'Ada',
    message: 'Check and test each push',
    files: { '.svc/workflows/check.yml': passing, 'test/run.sh': testScript(false) },
  },
  {
    hoursAgo: 10 * week + 30,
    author: 'Grace',
    message: 'Describe the layers',
    files: { 'docs/layers.md': '# Layers\n\nOne file a layer.\n' },
  },
  {
    hoursAgo: 9 * week,
    author: 'Linnea',
    message: 'Start the server by a script',
    files: { 'bin/atlas': '#!/bin/sh\nexec node src/server.ts "$@"\n' },
  },
  {
    hoursAgo: 8 * week + 50,
    author: 'Ada',
    message: 'Serve tiles over HTTP',
    files: {
      'src/server.ts':
        "import { createServer } from 'node:http'\n\ncreateServer((request, response) => response.end()).listen(9000)\n",
    },
  },
  {
    hoursAgo: 6 * week + 20,
    author: 'Grace',
    message: 'Measure how long a tile takes',
    files: {
      'bench/tiles.py':
        'import time\n\nstart = time.monotonic()\nprint(time.monotonic() - start)\n',
    },
  },
  {
    hoursAgo: 6 * week,
    author: 'Grace',
    message: 'Compare with the version before',
    files: {
      'bench/tiles.py':
        'import sys\nimport time\n\nstart = time.monotonic()\nprint(sys.argv, time.monotonic() - start)\n',
    },
  },
  {
    hoursAgo: 5 * week + 9,
    author: 'Ada',
    message: 'Refuse tiles outside the world',
    files: {
      'src/server.ts':
        "import { createServer } from 'node:http'\n\nconst world = /^\\/tiles\\/\\w+\\/\\d+\\/\\d+\\/\\d+$/\n\ncreateServer((request, response) => {\n  response.statusCode = world.test(request.url ?? '') ? 200 : 404\n  response.end()\n}).listen(9000)\n",
    },
  },
  {
    hoursAgo: 4 * week,
    author: 'Linnea',
    message: 'Compare tiles of all nodes',
    files: { 'test/run.sh': testScript(true) },
  },
  {
    hoursAgo: 4 * week - 5,
    author: 'Linnea',
    message: 'Sort features before they are encoded',
    files: {
      'test/run.sh': testScript(false),
      'docs/versions.md': '# Versions\n\nFeatures are sorted by id.\n',
    },
  },
  {
    hoursAgo: 3 * week + 12,
    author: 'Ada',
    message: 'Keep layers in memory between requests',
    files: {
      'src/layers.ts': layers.replace(
        '/** Features in',
        '/** Kept in memory between requests. Features in',
      ),
    },
  },
  {
    hoursAgo: 2 * week + 3,
    author: 'Ada',
    message: 'Say in the README what atlas is for',
    files: { 'README.md': atlasReadme },
  },
  {
    hoursAgo: 9 * day,
    author: 'Grace',
    message: 'Name the fields of a layer file',
    files: { 'docs/layers.md': '# Layers\n\nOne file a layer: `id`, `points`, `name`.\n' },
  },
  {
    hoursAgo: 6 * day,
    author: 'Ada',
    message: 'Listen on the port of the environment',
    files: { 'bin/atlas': '#!/bin/sh\nPORT=${PORT:-9000} exec node src/server.ts "$@"\n' },
  },
  {
    hoursAgo: 3 * day,
    author: 'Linnea',
    message: 'Give tests a time limit',
    files: {
      '.svc/workflows/check.yml': passing.replace('  test:\n', '  test:\n    timeout-minutes: 5\n'),
    },
  },
  {
    hoursAgo: 30,
    author: 'Ada',
    message: 'Draw features at the edge in both tiles',
    files: { 'src/tile.ts': tileWithSeam, 'src/encode.ts': encodeWithSeam },
  },
  {
    hoursAgo: 3,
    author: 'Ada',
    message: 'Read layers of the new format\n\nThe old format stays readable for one version.',
    files: {
      'src/layers.ts': layers.replace(
        'export type Feature = { id: string;',
        'export type Feature = { id: string; name: string;',
      ),
      'test/run.sh': testScript(true),
    },
  },
]

/** Commits of a repository that is only in the list. */
function quiet(
  path: string,
  weeks: number[],
  subjects: [author: string, message: string][],
  isTested: boolean,
): DemoCommit[] {
  return weeks.map((weeksAgo, index) => {
    const [author, message] = subjects[index % subjects.length] ?? ['Ada', 'Change it']
    const isBroken = isTested && index % 6 === 4
    const tests = { '.svc/workflows/check.yml': passing, 'test/run.sh': testScript(isBroken) }
    const files = { [path]: `${message}\n`.repeat(index + 1), ...(isTested && tests) }
    return { hoursAgo: Math.round(weeksAgo * week), author, message, files }
  })
}

/** The repositories of the demonstration. */
export const demoRepositories: DemoRepository[] = [
  {
    name: 'atlas',
    description: 'Vector tiles, cut and served',
    protects: ['main', 'release/*'],
    commits: atlas,
  },
  {
    name: 'deploy-tools',
    description: 'What brings a version to the machines, and back',
    protects: ['main'],
    commits: quiet(
      'deploy.sh',
      [12, 10.5, 9, 8.2, 7, 6.9, 5, 4.1, 3, 2.2, 1.1, 0.15],
      [
        ['Grace', 'Roll back when the second health check fails, too'],
        ['Linnea', 'Drain a node before it is replaced'],
        ['Ada', 'Print what would be done with --dry-run'],
      ],
      true,
    ),
  },
  {
    name: 'billing-worker',
    description: '',
    protects: [],
    commits: quiet(
      'worker.py',
      [11, 8, 6, 5.5, 5.2, 4, 2, 0.6],
      [
        ['Linnea', 'Charge once for one key'],
        ['Ada', 'Retry a charge only with the same idempotency key'],
      ],
      true,
    ),
  },
  {
    name: 'handbook',
    description: 'On call: whom to wake, and when not to',
    protects: [],
    commits: quiet(
      'README.md',
      [9, 8.9, 7, 3, 0.9],
      [
        ['Grace', 'Name the person on call'],
        ['Ada', 'Say what a page at night is for'],
      ],
      false,
    ),
  },
  {
    name: 'firmware',
    description: 'For the sensors on the roof',
    protects: ['main'],
    commits: quiet(
      'main.c',
      [12, 11, 10, 9, 5, 3],
      [
        ['Linnea', 'Watchdog: feed it from the main loop alone'],
        ['Linnea', 'Sleep between two measurements'],
      ],
      true,
    ),
  },
]
