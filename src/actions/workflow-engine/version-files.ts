import type { Json } from '#base/json.ts'
import type { SetupTool } from '../workflow-parser/setup-actions.ts'

/** The files in which a tool's version is looked up when a step names neither a version nor a file. */
export const usualFiles: Readonly<Partial<Record<SetupTool, readonly string[]>>> = {
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

// One, or a list of which one has the name.
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
