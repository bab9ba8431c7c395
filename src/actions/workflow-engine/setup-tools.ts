import { dirname } from 'node:path'
import { shQuote } from '#base/shell-word.ts'
import type { FoundTool } from '../tool-cache/find-tool.ts'
import { toolOfFolder } from '../tool-cache/tool-kinds.ts'
import { type SetupAction, type SetupTool, setupActions } from '../workflow-parser/setup-actions.ts'
import type { SetupStep } from '../workflow-parser/workflow.ts'
import type { StepOutput } from './output/step-output.ts'
import { evaluateEnvironment, evaluateTimeout } from './planning/evaluate-settings.ts'
import { runStepCommand } from './run-step-command.ts'
import { applyEffects, githubOf, type RunningStep } from './running-job.ts'
import { ended, type StepEnd } from './step-end.ts'
import { findTool, requestedVersions, type SetupRequest } from './tool-requests.ts'

type SetupRun = RunningStep & { step: SetupStep }

const versionFileMaxBytes = 64 * 1024

/** Provides the tools of a step such as actions/setup-node to the following steps. Throws when the runner lacks one. */
export async function setUpTools(setup: SetupRun): Promise<StepEnd> {
  const { running, step, scope, env, output } = setup
  const { files } = running
  const { runner } = running.run
  const request: SetupRequest = {
    action: step.action,
    ref: step.ref,
    inputs: await files.evaluate(() => evaluateEnvironment(step.with, scope)),
  }
  await writeNotes(setup, request)
  const versions = await requestedVersions(request, (path) => readVersionFile(setup, path))
  const { home } = running.workspace.inside
  const outputs: Record<string, string> = {}
  for (const version of versions) {
    const found = await findTool(runner.tools, request, version)
    await output.note(`${describe(found, request)}\n`)
    const own = environmentOf({
      ...{ request, found, home },
      architecture: runner.arch,
      env: { ...running.secrets, ...runner.env, ...running.env, ...env },
    })
    if (found.name === undefined) uncover(setup, found.tool)
    applyEffects(running, { env: own.env, path: own.path })
    Object.assign(outputs, own.outputs)
    if (own.script.length === 0) continue
    const end = await runCommands(setup, own.script.join('\n'), output)
    if (end.conclusion !== 'success') return { ...end, outputs }
  }
  return ended('success', { outputs })
}

async function writeNotes({ output }: SetupRun, { action, inputs }: SetupRequest): Promise<void> {
  const { noted }: SetupAction = setupActions[action]
  for (const [input, note] of Object.entries(noted)) {
    const value = inputs[input]?.trim() ?? ''
    if (value !== '' && value !== 'false') await output.note(`${input} has no effect: ${note}.\n`)
  }
}

function describe({ tool, name, version, path, program }: FoundTool, { inputs }: SetupRequest) {
  if (name !== undefined) return `${version} found in the tool cache: ${path}`
  const instead = tool === 'java' ? `, in place of the distribution ${inputs.distribution}` : ''
  return `${version} found on the runner's PATH: ${program}${instead}`
}

/** Reads a file of the workspace, inside the sandbox because it may be a link to anywhere; undefined if there is none. */
async function readVersionFile(setup: SetupRun, path: string): Promise<string | undefined> {
  const pieces: Buffer[] = []
  const file = shQuote(path.startsWith('-') ? `./${path}` : path)
  const script = `[ -f ${file} ] || exit 3\nexec head -c ${versionFileMaxBytes} ${file}`
  const push = async (bytes: Buffer) => void pieces.push(bytes)
  const end = await runCommands(setup, script, { ...setup.output, push })
  if (end.conclusion === 'success') return Buffer.concat(pieces).toString()
  if (end.exitCode === 3) return undefined
  throw new Error(end.fault || `${path} cannot be read: ${Buffer.concat(pieces)}`)
}

/** Runs commands with the tools that the step has set up so far. */
async function runCommands(
  { running, list, step, number, env, scope, signal }: SetupRun,
  text: string,
  output: StepOutput,
): Promise<StepEnd> {
  return runStepCommand({
    running,
    number,
    script: { name: 'script.sh', text },
    command: ({ script }) => ['sh', '-e', script],
    cwd: running.workspace.inside.workspace,
    env,
    github: githubOf(running, list, step),
    timeoutMs: await running.files.evaluate(() =>
      evaluateTimeout(step.timeoutMinutes, scope, running.run.plan.limits),
    ),
    signal,
    output,
  })
}

// The machine's tool is at the end of PATH, behind those that earlier steps have set up.
function uncover({ running }: SetupRun, tool: SetupTool): void {
  const { folders } = running.run.runner.tools
  const isOfTool = (path: string) =>
    folders.some((folder) => {
      const [name = ''] = path.slice(folder.length + 1).split('/')
      return path.startsWith(`${folder}/`) && toolOfFolder(name) === tool
    })
  running.addedPath = running.addedPath.filter((path) => !isOfTool(path))
}

/** The effect of a step that sets up a tool. */
type ToolEnvironment = {
  env: Record<string, string>
  /** Folders for PATH, in search order. */
  path: string[]
  outputs: Record<string, string>
  /** Commands for sh that finish the work, inside the sandbox. */
  script: string[]
}

type Options = {
  request: SetupRequest
  found: FoundTool
  /** The home of the step. */
  home: string
  /** As in `RUNNER_ARCH`. */
  architecture: string
  /** The variables of the step so far. */
  env: Readonly<Record<string, string>>
}

/** Variables, PATH and outputs as the action sets them, for an installation that steps cannot write to. */
function environmentOf(options: Options): ToolEnvironment {
  const { found } = options
  // A tool of the machine is on the PATH already.
  const path = found.name === undefined ? [] : [dirname(found.program)]
  const { env = {}, outputs, script = [], ...own } = environments[found.tool](options, path)
  return { env, path: own.path ?? path, outputs: { 'cache-hit': 'false', ...outputs }, script }
}

type Environment = (
  options: Options,
  path: string[],
) => Partial<ToolEnvironment> & Pick<ToolEnvironment, 'outputs'>

const environments: Record<SetupTool, Environment> = {
  node: nodeEnvironment,
  python: pythonEnvironment,
  java: javaEnvironment,
  ruby: rubyEnvironment,
  pnpm: pnpmEnvironment,

  go: ({ found, home }, path) => ({
    path: [...path, `${home}/go/bin`],
    env: { GOROOT: found.path },
    outputs: { 'go-version': found.version },
  }),

  dotnet: ({ found, home }, path) => ({
    path: [...path, `${home}/.dotnet/tools`],
    env: { DOTNET_ROOT: found.path },
    outputs: { 'dotnet-version': found.version },
  }),

  rust: ({ found, home }, path) => ({
    path: [...path, `${home}/.cargo/bin`],
    env: { CARGO_HOME: `${home}/.cargo`, CARGO_INCREMENTAL: '0', CARGO_TERM_COLOR: 'always' },
    outputs: { name: found.version, cachekey: found.version.replaceAll(/\W/g, '') },
  }),

  bun: ({ found, home }, path) => ({
    path: [...path, `${home}/.bun/bin`],
    outputs: { 'bun-version': found.version, 'bun-path': found.program },
  }),

  deno: ({ found, home }, path) => ({
    path: [...path, `${home}/.deno/bin`],
    env: { DENO_INSTALL_ROOT: `${home}/.deno` },
    outputs: { 'deno-version': found.version, 'release-channel': 'stable' },
  }),

  uv: ({ found: { version, program }, home, request }, path) => {
    const { 'python-version': python = '' } = request.inputs
    return {
      path: [...path, `${home}/.local/bin`],
      env: python === '' ? {} : { UV_PYTHON: python },
      outputs: { 'uv-version': version, 'uv-path': program, 'uvx-path': `${program}x` },
    }
  },
}

function nodeEnvironment({ found, home, request, env }: Options, path: string[]) {
  // Global packages go to the home, because the installation is read-only.
  const prefix = `${home}/.npm-global`
  const settings = npmSettings(request)
  const file = `${home}/.npmrc-of-setup-node`
  const own: Record<string, string> = { NPM_CONFIG_PREFIX: prefix }
  if (settings) {
    own.NPM_CONFIG_USERCONFIG = file
    own.NODE_AUTH_TOKEN = env.NODE_AUTH_TOKEN || 'XXXXX-XXXXX-XXXXX-XXXXX'
  }
  return {
    env: own,
    path: [`${prefix}/bin`, ...path],
    outputs: { 'node-version': `v${found.version}` },
    script: settings ? [`printf '%s\\n' ${settings.map(shQuote).join(' ')} >${shQuote(file)}`] : [],
  }
}

function pythonEnvironment(options: Options) {
  const { found, home, request } = options
  const { version, path, program, name } = found
  const { 'update-environment': update = 'true', 'pip-install': install = '' } = request.inputs
  // The machine's Python has no `python`, and lets pip install nothing: PEP 668. A virtual environment does both.
  const isOfMachine = name === undefined
  const location = isOfMachine ? `${home}/.python-${version}` : path
  const python = isOfMachine ? `${location}/bin/python` : program
  const create = `${shQuote(program)} -m venv`
  const packages = install.split(/\s+/).filter((word) => word !== '')
  const env: Record<string, string> = {
    pythonLocation: location,
    Python_ROOT_DIR: location,
    Python2_ROOT_DIR: location,
    Python3_ROOT_DIR: location,
  }
  if (!isOfMachine) {
    env.PKG_CONFIG_PATH = `${path}/lib/pkgconfig`
    env.LD_LIBRARY_PATH = `${path}/lib`
  }
  const folders = isOfMachine ? [] : [path, `${home}/.local/bin`]
  return {
    ...(update === 'false'
      ? { path: [], env: {} }
      : { path: [`${location}/bin`, ...folders], env }),
    outputs: { 'python-version': version, 'python-path': python },
    script: [
      ...(isOfMachine
        ? [
            `${create} ${shQuote(location)} >/dev/null 2>&1 || ${create} --without-pip --clear ${shQuote(location)}`,
          ]
        : []),
      ...(packages.length > 0
        ? [`${shQuote(python)} -m pip install ${packages.map(shQuote).join(' ')}`]
        : []),
    ],
  }
}

function javaEnvironment({ found, request, architecture }: Options) {
  const { version, path } = found
  const [major = ''] = version.split('.')
  return {
    env: { JAVA_HOME: path, [`JAVA_HOME_${major}_${architecture.toUpperCase()}`]: path },
    outputs: { distribution: request.inputs.distribution ?? '', version, path },
  }
}

function rubyEnvironment({ found, home, request }: Options, path: string[]) {
  const gems = `${home}/.gem/ruby-${found.version}`
  const { 'working-directory': folder = '', 'bundler-cache': bundles = '' } = request.inputs
  const install = [
    ...(folder === '' ? [] : [`cd -- ${shQuote(folder)}`]),
    'if [ -f Gemfile.lock ]; then bundle config --local deployment true; fi',
    'bundle config --local path "$PWD/vendor/bundle"',
    'bundle install --jobs 4',
  ]
  return {
    env: { GEM_HOME: gems },
    path: [`${gems}/bin`, ...path],
    outputs: { 'ruby-prefix': found.path },
    script: bundles === 'true' ? install : [],
  }
}

function pnpmEnvironment({ found, home, request }: Options, path: string[]) {
  const folder = `${home}/.local/share/pnpm`
  const install = request.inputs.run_install?.trim() ?? ''
  if (!/^(true|false|null|)$/.test(install)) {
    throw new Error('run_install accepts true and false; run pnpm in a step for anything else.')
  }
  return {
    path: [folder, ...path],
    env: { PNPM_HOME: folder },
    outputs: { dest: found.path, bin_dest: dirname(found.program) },
    script: install === 'true' ? ['pnpm install'] : [],
  }
}

/** The lines of .npmrc for `registry-url` of actions/setup-node; undefined without it. */
function npmSettings({ inputs }: SetupRequest): string[] | undefined {
  const text = inputs['registry-url']?.trim() ?? ''
  if (text === '') return undefined
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new Error('registry-url is not an http or https address.')
  }
  const registry = url.href.endsWith('/') ? url.href : `${url.href}/`
  const scope = inputs.scope ? `@${inputs.scope.replace(/^@/, '').toLowerCase()}:` : ''
  const authority = registry.replace(/^\w+:/, '')
  return [
    // npm replaces the variable.
    `${authority}:_authToken=\${NODE_AUTH_TOKEN}`,
    `${scope}registry=${registry}`,
    ...(inputs['always-auth'] ? [`always-auth=${inputs['always-auth']}`] : []),
  ]
}
