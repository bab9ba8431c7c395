import type { SetupTool } from '../workflow-parser/setup-actions.ts'

/** Where a tool is found, and how its version is read. */
export type ToolKind = {
  title: string
  /** Its folders in a tool cache: those of GitHub's runners and actions, if they have any. */
  folders: readonly string[]
  /** The names of its program; the first that is found counts. */
  programs: readonly string[]
  versionArguments: readonly string[]
  /** Finds the version in the output of the program. */
  versionPattern: RegExp
}

const version = {
  versionArguments: ['--version'],
  versionPattern: /(\d{1,6}\.\d{1,6}\.\d{1,6}\S{0,40})/,
}

export const toolKinds: Readonly<Record<SetupTool, ToolKind>> = {
  node: { title: 'Node.js', folders: ['node'], programs: ['node'], ...version },
  python: {
    title: 'Python',
    folders: ['Python'],
    programs: ['python3', 'python'],
    ...version,
  },
  go: {
    title: 'Go',
    folders: ['go'],
    programs: ['go'],
    versionArguments: ['version'],
    versionPattern: /go version go(\S+)/,
  },
  java: {
    title: 'Java',
    folders: [],
    programs: ['java'],
    versionArguments: ['-version'],
    versionPattern: /version "([^"]+)"/,
  },
  dotnet: { title: '.NET SDK', folders: ['dotnet'], programs: ['dotnet'], ...version },
  ruby: {
    title: 'Ruby',
    folders: ['Ruby'],
    programs: ['ruby'],
    versionArguments: ['--version'],
    versionPattern: /ruby (\d{1,6}\.\d{1,6}\.\d{1,6})/,
  },
  rust: { title: 'Rust', folders: ['rust'], programs: ['rustc'], ...version },
  pnpm: { title: 'pnpm', folders: ['pnpm'], programs: ['pnpm'], ...version },
  bun: { title: 'Bun', folders: ['bun'], programs: ['bun'], ...version },
  deno: { title: 'Deno', folders: ['deno'], programs: ['deno'], ...version },
  uv: { title: 'uv', folders: ['uv'], programs: ['uv'], ...version },
}

type Distribution = {
  /** As in the names of folders, `Java_Temurin-Hotspot_jdk`. */
  name: string
  /** Whether other builds of OpenJDK can take its place. */
  isOpenJdk: boolean
}

/** By the values of the input `distribution` of actions/setup-java. */
const javaDistributions: Readonly<Record<string, Distribution>> = {
  temurin: { name: 'Temurin-Hotspot', isOpenJdk: true },
  zulu: { name: 'Zulu', isOpenJdk: true },
  adopt: { name: 'Adopt-Hotspot', isOpenJdk: true },
  'adopt-hotspot': { name: 'Adopt-Hotspot', isOpenJdk: true },
  'adopt-openj9': { name: 'Adopt-OpenJ9', isOpenJdk: false },
  liberica: { name: 'Liberica', isOpenJdk: true },
  microsoft: { name: 'Microsoft', isOpenJdk: true },
  corretto: { name: 'Corretto', isOpenJdk: true },
  oracle: { name: 'Oracle', isOpenJdk: true },
  dragonwell: { name: 'Dragonwell', isOpenJdk: true },
  sapmachine: { name: 'SapMachine', isOpenJdk: true },
  semeru: { name: 'IBM_Semeru', isOpenJdk: false },
  graalvm: { name: 'GraalVM', isOpenJdk: false },
  'graalvm-community': { name: 'GraalVM-Community', isOpenJdk: false },
  jetbrains: { name: 'JetBrains', isOpenJdk: false },
}

/** All values of the input `distribution`. */
export const distributionNames: readonly string[] = Object.keys(javaDistributions)

/**
 * The folders of a tool cache for a distribution and a package, such as `jdk`, in order of preference: its own, and
 * those of other builds of OpenJDK if they can take its place. Undefined for an unknown distribution.
 */
export function javaFolders(distribution: string, pack: string) {
  const key = distribution.toLowerCase()
  const own = Object.hasOwn(javaDistributions, key) ? javaDistributions[key] : undefined
  if (!own) return undefined
  const others = Object.values(javaDistributions).filter(({ isOpenJdk }) => isOpenJdk)
  const all = [own, ...(own.isOpenJdk ? others : [])].map(({ name }) => `Java_${name}_${pack}`)
  return { names: [...new Set(all)], isOpenJdk: own.isOpenJdk }
}

/** The tool whose versions are in a folder of a tool cache; undefined for a folder that no action uses. */
export function toolOfFolder(name: string): SetupTool | undefined {
  if (/^Java_/.test(name)) return 'java'
  if (name === 'PyPy') return 'python'
  // It has no other keys.
  const entries = Object.entries(toolKinds) as [SetupTool, ToolKind][]
  return entries.find(([, { folders }]) => folders.includes(name))?.[0]
}

/** All folders of a tool cache that actions use. */
export const cacheFolders: readonly string[] = [
  ...Object.values(toolKinds).flatMap(({ folders }) => folders),
  'PyPy',
  ...Object.values(javaDistributions).map(({ name }) => `Java_${name}_jdk`),
]
