import type { Json } from '#base/json.ts'
import { type FoundTool, listVersions, type ToolRequest } from '../tool-cache/find-tool.ts'
import { distributionNames, javaFolders, toolKinds } from '../tool-cache/tool-kinds.ts'
import type { Toolset } from '../tool-cache/toolset.ts'
import {
  type SetupAction,
  type SetupActionName,
  type SetupTool,
  setupActions,
} from '../workflow-parser/setup-actions.ts'

/** A version that a step requests. */
type RequestedVersion = {
  /** Specifications, in order of preference; an empty one fits every version. */
  specs: readonly string[]
  /** The input or the file that names it; empty if none does. */
  source: string
}

/** A step that sets up a tool, with its inputs. */
export type SetupRequest = {
  action: SetupActionName
  ref: string
  inputs: Readonly<Record<string, string>>
}

/** Reads a file of the workspace; undefined when there is none. */
type ReadFile = (path: string) => Promise<string | undefined>

/** The versions that a step requests by its inputs, else by a file; any version when none names one. */
export async function requestedVersions(
  request: SetupRequest,
  readFile: ReadFile,
): Promise<RequestedVersion[]> {
  const given = versionsInInputs(request)
  return given.length > 0 ? given : await versionsInFiles(request, readFile)
}

async function versionsInFiles(
  { action, inputs }: SetupRequest,
  readFile: ReadFile,
): Promise<RequestedVersion[]> {
  const { tool } = setupActions[action]
  const { fileInput }: SetupAction = setupActions[action]
  const named = (fileInput && inputs[fileInput]?.trim()) || undefined
  const folder = tool === 'ruby' ? (inputs['working-directory'] ?? '') : ''
  const paths = named === undefined ? (usualFiles[tool] ?? []) : [named]
  for (const path of paths) {
    const text = await readFile(folder === '' ? path : `${folder}/${path}`)
    if (text === undefined) continue
    const versions = versionsInFile(tool, path, text)
    if (versions.length > 0) return versions.map((spec) => toRequested(tool, spec, path))
    if (named !== undefined)
      throw new Error(`${path} names no version of ${toolKinds[tool].title}.`)
  }
  if (named !== undefined) throw new Error(`${fileInput}: there is no file ${named}.`)
  return [{ specs: [''], source: '' }]
}

// A version in go.mod is a minimum.
function toRequested(tool: SetupTool, spec: string, source: string): RequestedVersion {
  const isMinimum = tool === 'go' && /^\d[\d.]*$/.test(spec)
  return { specs: isMinimum ? [spec, `>=${spec}`] : [spec], source }
}

function versionsInInputs({ action, ref, inputs }: SetupRequest): RequestedVersion[] {
  const { versionInput, tool }: SetupAction = setupActions[action]
  const lines = (inputs[versionInput] ?? '').split('\n').map((line) => line.trim())
  const given = lines.filter((line) => line !== '' && !(tool === 'ruby' && line === 'default'))
  if (given.length > 0) return given.map((spec) => ({ specs: [spec], source: versionInput }))
  // dtolnay/rust-toolchain@1.75.0
  const isRust =
    action === 'dtolnay/rust-toolchain' && !/^(master|v\d+|[0-9a-f]{40,64}|)$/.test(ref)
  return isRust ? [{ specs: [ref], source: `${action}@${ref}` }] : []
}

/** Finds the tool of a requested version. Throws an error that lists those of the runner, and a VersionError. */
export async function findTool(
  toolset: Toolset,
  { action, inputs }: SetupRequest,
  version: RequestedVersion,
): Promise<FoundTool> {
  const { tool } = setupActions[action]
  for (const spec of version.specs) {
    // `3.14t` is free-threaded.
    const [, plain = spec] = (tool === 'python' && /^(\d[\d.]*)t(?=$|-)/.exec(spec)) || []
    const text = `${plain}${spec.slice(plain.length).replace(/^t/, '')}`
    const isFreeThreaded = inputs.freethreaded === 'true' || text !== spec
    const request: ToolRequest = { tool, spec: text, ...narrowed(tool, text, inputs) }
    if (inputs.architecture) request.architecture = inputs.architecture.trim()
    if (isFreeThreaded)
      request.architecture = `${request.architecture ?? process.arch}-freethreaded`
    if (isFreeThreaded) request.isSystemAllowed = false
    if (inputs['allow-prereleases'] === 'true') request.allowsPrereleases = true
    const found = await toolset.find(request)
    if (found) return found
  }
  throw new Error(await describeMissing(toolset, { action, inputs, version }))
}

/** The parts of a request that depend on the text of a version, or on inputs of a single action. */
function narrowed(
  tool: ToolRequest['tool'],
  text: string,
  inputs: SetupRequest['inputs'],
): Partial<ToolRequest> {
  if (tool === 'python') {
    const [, implementation, spec = ''] = /^(pypy|graalpy)-?(\d[\d.x]*)?/i.exec(text) ?? []
    if (implementation === undefined) return {}
    const names = implementation.toLowerCase() === 'pypy' ? ['PyPy'] : []
    return { spec, names, isSystemAllowed: false }
  }
  if (tool === 'ruby') {
    const [, implementation, spec = ''] =
      /^(jruby|truffleruby(?:\+graalvm)?|mruby)(?:-(.*))?$/i.exec(text) ?? []
    if (implementation === undefined) return {}
    const isNumber = /^\d/.test(spec)
    return {
      spec: isNumber ? spec : '',
      names: [implementation.toLowerCase()],
      isSystemAllowed: false,
    }
  }
  if (tool !== 'java') return {}
  const { distribution = '', 'java-package': pack = 'jdk' } = inputs
  const known = javaFolders(distribution, pack)
  if (!known) {
    const all = distributionNames.join(', ')
    throw new Error(`There is no distribution ${JSON.stringify(distribution)}; use one of ${all}.`)
  }
  return { names: known.names, isSystemAllowed: known.isOpenJdk && /^(jdk|jre)$/.test(pack) }
}

type Missing = Pick<SetupRequest, 'action' | 'inputs'> & { version: RequestedVersion }

/** Says which versions a runner has instead of the requested one. */
async function describeMissing(
  toolset: Toolset,
  { action, inputs, version }: Missing,
): Promise<string> {
  const { tool } = setupActions[action]
  const { title } = toolKinds[tool]
  const cached = await toolset.cached(tool, inputs.architecture || undefined)
  const system = await toolset.system(tool)
  const has = listVersions(tool, cached)
  if (system) has.push(`${system.version} on its PATH`)
  const [spec = ''] = version.specs
  const architecture = inputs.architecture ? ` for ${inputs.architecture}` : ''
  const wanted = spec === '' ? '' : ` ${JSON.stringify(spec)} (${version.source})`
  return has.length > 0
    ? `This runner has no ${title}${wanted}${architecture}. It has ${has.join('; ')}. Use one of these, or have the version added to a folder of SVC_TOOLS.`
    : `This runner has no ${title}. Have${wanted || ' it'} added to a folder of SVC_TOOLS.`
}

/** The files in which a tool's version is looked up when a step names neither a version nor a file. */
const usualFiles: Readonly<Partial<Record<SetupTool, readonly string[]>>> = {
  python: ['.python-version'],
  dotnet: ['global.json'],
  ruby: ['.ruby-version', '.tool-versions'],
  pnpm: ['package.json'],
  bun: ['package.json', '.bun-version', '.tool-versions'],
  deno: ['.deno-version', '.dvmrc', '.tool-versions'],
  uv: ['uv.toml', 'pyproject.toml'],
  rust: ['rust-toolchain.toml', 'rust-toolchain'],
}

/** The version or versions that a file of a project names for a tool, as the actions read it. */
export function versionsInFile(tool: SetupTool, path: string, text: string): string[] {
  const name = path.slice(path.lastIndexOf('/') + 1)
  if (name === '.tool-versions') return firstMatch(text, asdfPatterns[tool])
  if (name === 'package.json') return [inPackage(tool, toObject(text))].filter(isText)
  if (name === 'global.json') return toSdkVersions(toObject(text))
  const byFile = patterns[tool]?.find(([pattern]) => pattern.test(name))
  if (byFile)
    return byFile
      .slice(1)
      .flatMap((pattern) => firstMatch(text, pattern))
      .slice(0, 1)
  const lines = text
    .split(/\r?\n/)
    .map((line) => (line.split('#')[0] ?? '').trim())
    .filter((line) => line !== '')
  const plain = lines.map((line) => line.replace(/^(node|nodejs) +/, ''))
  return tool === 'python' ? plain : plain.slice(0, 1)
}

const asdfPatterns: Partial<Record<SetupTool, RegExp>> = {
  node: /^node(?:js)? +(\S+)/m,
  python: /^python +(\S+)/m,
  go: /^(?:golang|go) +(\S+)/m,
  java: /^java +(?:[a-z]+-)*(\d\S*)/m,
  ruby: /^ruby +(\S+)/m,
  bun: /^bun +(\S+)/m,
  deno: /^deno +(\S+)/m,
}

/** Patterns for the names of files, each with those for the version, in order of preference. */
const patterns: Partial<Record<SetupTool, [name: RegExp, ...version: RegExp[]][]>> = {
  go: [[/^go\.(mod|work)$/, /^toolchain go(\d\S*)/m, /^go (\d\S*)/m]],
  python: [
    [
      /^pyproject\.toml$/,
      /^requires-python *= *["']([^"'\n]+)["']/m,
      /^python *= *["']([^"'\n]+)["']/m,
    ],
    [
      /^Pipfile$/,
      /^python_full_version *= *["']([^"'\n]+)["']/m,
      /^python_version *= *["']([^"'\n]+)["']/m,
    ],
  ],
  java: [[/^\.sdkmanrc$/, /^java *= *(\d[\d.]*)/m]],
  rust: [[/^rust-toolchain(\.toml)?$/, /^channel *= *["']([^"'\n]+)["']/m, /^(\w[\w.-]*)$/m]],
  uv: [[/\.toml$/, /^required-version *= *["']([^"'\n]+)["']/m]],
}

function firstMatch(text: string, pattern: RegExp | undefined): string[] {
  const [, found] = pattern?.exec(text) ?? []
  return found === undefined ? [] : [found]
}

function inPackage(tool: SetupTool, file: Json): Json | undefined {
  if (tool === 'node') {
    return (
      at(file, 'volta', 'node') ??
      runtimeOf(at(file, 'devEngines', 'runtime'), 'node') ??
      at(file, 'engines', 'node')
    )
  }
  const [, manager, version] = /^(\w+)@([^+]+)/.exec(String(at(file, 'packageManager') ?? '')) ?? []
  if (manager === tool) return version
  return runtimeOf(at(file, 'devEngines', 'packageManager'), tool) ?? at(file, 'engines', tool)
}

// An object, or a list of objects of which one has the name.
function runtimeOf(value: Json | undefined, name: string): Json | undefined {
  const all = Array.isArray(value) ? value : [value ?? null]
  return at(all.find((one) => at(one, 'name') === name) ?? null, 'version')
}

// https://learn.microsoft.com/dotnet/core/tools/global-json: `rollForward`.
function toSdkVersions(file: Json): string[] {
  const version = at(file, 'sdk', 'version')
  if (typeof version !== 'string') return []
  const [, major, minor, band] = /^(\d+)\.(\d+)\.(\d)\d\d/.exec(version) ?? []
  const rollForward = String(at(file, 'sdk', 'rollForward') ?? 'latestPatch')
  if (major === undefined) return [version]
  if (/minor$/i.test(rollForward)) return [`${major}.x`]
  if (/major$/i.test(rollForward)) return [`>=${version}`]
  if (/feature$/i.test(rollForward)) return [`${major}.${minor}.x`]
  return [/patch$/i.test(rollForward) ? `${major}.${minor}.${band}xx` : version]
}

function at(value: Json | undefined, ...keys: string[]): Json | undefined {
  const [key, ...rest] = keys
  if (key === undefined) return value
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isObject && Object.hasOwn(value, key) ? at(value[key], ...rest) : undefined
}

function toObject(text: string): Json {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`It is not valid JSON: ${error instanceof Error ? error.message : error}`)
  }
}

function isText(value: Json | undefined): value is string {
  return typeof value === 'string'
}
