import { execFileSync } from 'node:child_process'
import { checkFiles } from '#actions/workflow-parser/checker.ts'
import { parseFile } from '#actions/workflow-parser/reading/parse.ts'
import { formatFaults } from '#actions/workflow-parser/source/fault-list.ts'
import type { SourceFile } from '#actions/workflow-parser/workflow.ts'
import { checkSources, type Sources } from '#workflows/commits/workflow-sources.ts'

// Checks workflow files of public projects and prints the table of docs/design/public-workflows.md:
//
//   node scripts/public-workflows.ts FOLDER
//
// FOLDER has a Git repository of each project at FOLDER/<owner>/<name>, bare or not, with the commit of the list.

const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error('usage: node scripts/public-workflows.ts FOLDER')

/** The project, the file in .github/workflows, and the commit. */
const files = [
  ['gin-gonic/gin', 'gin.yml', 'dcaa4296d111981ffb31ac3eba90bb63e1eb5ab9'],
  ['spf13/cobra', 'test.yml', 'adbc8813901bba65827259daa8e22ff94ec1f30e'],
  ['gohugoio/hugo', 'test.yml', '7b5199fdeff7d7682e9f979f468d55bc7b67b934'],
  ['cli/cli', 'go.yml', '44ee17760709bedf1cad7e452e61751489b81a33'],
  ['caddyserver/caddy', 'ci.yml', '0cf03d32f7d99cf160d5375e8a40fbe3d910d515'],
  ['go-chi/chi', 'ci.yml', '735ae2b87f8c733d616e809ae86e0985c1bc3350'],
  ['stretchr/testify', 'main.yml', '12f8b5612e125f337c4589e198771e5f8970f160'],
  ['charmbracelet/bubbletea', 'build.yml', '73b6d91ac1c3854dd4af046ab5f9e51d3b3b4290'],
  ['junegunn/fzf', 'linux.yml', '956562daaa82ddf55ea8f7aeab56883377b742c6'],
  ['BurntSushi/ripgrep', 'ci.yml', '3fce3b5bb0236da2df6d99672afb8a719642eca7'],
  ['serde-rs/serde', 'ci.yml', '1023d077510b4aef36a41ef56fdb7798568a2654'],
  ['tokio-rs/tokio', 'ci.yml', 'ea91b33ca57ff0581b38e735cc108f831bccbdaa'],
  ['clap-rs/clap', 'ci.yml', '6982fb1c98c7247e38a6d4f04191b94e30497e7b'],
  ['sharkdp/bat', 'CICD.yml', '2ba8db9c14e5794572f5ea338c2b90404c9769cb'],
  ['rust-lang/regex', 'ci.yml', '2b527599eb9eea0dcc288c704584f242f26a5c61'],
  ['rayon-rs/rayon', 'ci.yaml', 'c4dac9f82ee03f61e855075b668229a9e4d759ad'],
  ['hyperium/hyper', 'CI.yml', '8fcaf1a62787b824fdd7b95a3e7c9ea81acd3449'],
  ['dtolnay/anyhow', 'ci.yml', '1dbe1862aae650423e3361fbd20b7d17c5109cc3'],
  ['psf/requests', 'run-tests.yml', '1f6589ec3a1ee910f9a65cc3ceac60b26677bc0e'],
  ['pallets/flask', 'tests.yaml', '2ac89889f4cc330eabd50f295dcef02828522c69'],
  ['pytest-dev/pytest', 'test.yml', 'df87db7b0462fb764ef73fa00561adf8ad047572'],
  ['psf/black', 'test.yml', '8947c48ef2077c3a301b03c1e814dc2e3f78436e'],
  ['encode/httpx', 'test-suite.yml', 'ae1b9f66238f75ced3ced5e4485408435de10768'],
  ['tqdm/tqdm', 'test.yml', 'f6a30fab726ab8e794a9db88b4392ce207760937'],
  ['python-attrs/attrs', 'ci.yml', 'c1dc5dcba16ed827aa6dcad896b41a3afedb4e32'],
  ['fastapi/fastapi', 'test.yml', 'c3f316b7e814667e8ee81e03a7330d00ee61e45c'],
  ['pydantic/pydantic', 'ci.yml', '2151025aa51263f3016502b00010b78e4481eaa1'],
  ['expressjs/express', 'ci.yml', 'a3714473feb3d2908add734d340e7755fd85e0a3'],
  ['axios/axios', 'ci.yml', '23a25af0688d1db2c396deb09229d2271cc24f6c'],
  ['eslint/eslint', 'ci.yml', 'c27bc926e496985eb7911c09eb60914b2e4b5d0f'],
  ['vuejs/core', 'ci.yml', 'e2bede96134f757aad5c5b33ac9be055022dbfc8'],
  ['vitejs/vite', 'ci.yml', 'a98c8d95d552c6fa98ab66fb810f5b39ad5abf49'],
  ['sindresorhus/got', 'main.yml', 'd00d845a0b435365ec73ea5a1fca6e17ee677184'],
  ['fastify/fastify', 'ci.yml', '83e69762aff047940b376fc2a266d143499ef727'],
  ['prettier/prettier', 'prod-test.yml', '4f84a934201322ca87750e2b9b25baf296da6560'],
  ['mochajs/mocha', 'mocha.yml', 'e6b9ee773481fd739ae24caeb42f32ac0b010f95'],
  ['chalk/chalk', 'main.yml', '678e5505458d0cf40134e205aed4454e0eeac45c'],
  ['google/gson', 'build.yml', '9835b6f90192f79cdf5300c528fc6212455fb6c1'],
  ['square/okhttp', 'build.yml', '1682d9bac8c03dffde2969b0b74d47649d0dbb52'],
  ['apache/commons-lang', 'maven.yml', 'd15939ef46f0bd4144994df8be95cf5a7f91eb52'],
  ['mockito/mockito', 'ci.yml', 'ee8a330da0218f32d5964acdeaa3ac39e2c6ce14'],
  ['apache/maven', 'maven.yml', '540897d3d3c329a38e4df9648249c9d407dbc8c2'],
  ['curl/curl', 'linux.yml', '5c61e168698a72b87437d58ed728bcdea6d5db42'],
  ['redis/redis', 'ci.yml', '4f8cdc2a1ea53e42955af758aabffee67cb455dd'],
  ['jqlang/jq', 'ci.yml', '579e6f76cffd7643ba4002a2c3618a5ea710589a'],
  ['madler/zlib', 'cmake.yml', 'd201f04c72b0881220f5ba75ca19fd0e19fa848b'],
  ['libuv/libuv', 'CI-unix.yml', '6179e7af87413396d5853a1c3722c8b5749336c8'],
  ['facebook/zstd', 'dev-short-tests.yml', '2dddf0905619b70c25faeca7f1a39601dc97616f'],
  ['git/git', 'main.yml', '1a3e64c6c4a623626ff0687008732a8e007e2a1c'],
  ['DaveGamble/cJSON', 'CI.yml', 'a29814f285cc531c00223743ad3c55cd38c0dc56'],
] as const

const checker = {
  check: (chosen: SourceFile[], actions: SourceFile[], called: SourceFile[] = []) =>
    checkFiles(async (kind, file) => parseFile(kind, file), { files: chosen, actions, called }),
}

type Row = { cells: string[]; verdict: 'unchanged' | 'one line' | 'more lines' }

async function checkProject([project, name, commit]: (typeof files)[number]): Promise<Row> {
  const read = async (path: string) => {
    const text = show(`${folder}/${project}`, `${commit}:${path}`)
    return text === undefined ? undefined : { path, text }
  }
  const file = await read(`.github/workflows/${name}`)
  if (!file) throw new Error(`${project} has no ${name} in ${commit}`)
  const sources = await checkSources(checker, [file], read)
  const lines = new Set(sources.faults.map((fault) => `${fault.file}:${fault.line}`)).size
  const verdict = lines === 0 ? 'unchanged' : lines === 1 ? 'one line' : 'more lines'
  const shown = verdict === 'more lines' ? `${lines} lines` : verdict
  const total = sources.workflows.flatMap(({ jobs }) => jobs).length
  const skipped = Object.values(sources.skipped).flat().length
  const jobs = lines === 0 ? `${total - skipped} of ${total}` : ''
  return { verdict, cells: [project, name, commit.slice(0, 12), shown, jobs, whyOf(sources)] }
}

/** The causes, without their positions. */
function whyOf({ faults, notes }: Sources): string {
  const causes = formatFaults(faults.map((fault) => ({ ...fault, instead: '' }))).map((line) =>
    line.replace(/^.*?:\d+:\d+: /, '').replace(/ \(also lines? .*\)$/, ''),
  )
  const all = [...new Set(causes)]
  const noted = notes.length === 0 ? '' : notes.length === 1 ? '1 note' : `${notes.length} notes`
  return [
    ...all.slice(0, 4),
    ...(all.length > 4 ? [`and ${all.length - 4} more causes`] : []),
    noted,
  ]
    .filter(Boolean)
    .join('; ')
}

/** A regular file of a commit. */
function show(repository: string, object: string): string | undefined {
  try {
    const type = execFileSync('git', ['-C', repository, 'cat-file', '-t', object], {
      stdio: 'pipe',
    })
    if (type.toString().trim() !== 'blob') return undefined
    return execFileSync('git', ['-C', repository, 'show', object], { encoding: 'utf8' })
  } catch {
    return undefined
  }
}

const rows: Row[] = []
for (const file of files) rows.push(await checkProject(file))
const line = (cells: readonly string[]) =>
  `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`
const count = (verdict: Row['verdict']) => rows.filter((row) => row.verdict === verdict).length
process.stdout.write(
  line(['project', 'file', 'commit', 'verdict', 'jobs that run', 'what the check says']),
)
process.stdout.write(line(['---', '---', '---', '---', '---', '---']))
for (const { cells } of rows) process.stdout.write(line(cells))
const [unchanged, oneLine] = [count('unchanged'), count('one line')]
process.stdout.write(
  `\n${rows.length} files: ${unchanged} unchanged, ${oneLine} with one changed line, ` +
    `${count('more lines')} with more: ` +
    `${Math.round((100 * (unchanged + oneLine)) / rows.length)} % need no change or one line.\n`,
)
