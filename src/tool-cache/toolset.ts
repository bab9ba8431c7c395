import { once } from '../base/once.ts'
import type { SetupTool } from '../workflow-parser/setup-actions.ts'
import type { CachedTool } from './read-tool-cache.ts'
import type { SystemTool } from './system-tool.ts'

/** A tool that fits a request. */
export type FoundTool = {
  tool: SetupTool
  version: string
  /** The folder of the installation. */
  path: string
  program: string
  /** The name of its folder in the tool cache; undefined for a tool of the machine. */
  name: string | undefined
}

export type ToolRequest = {
  tool: SetupTool
  /** A specification of versions; see `selectVersion`. */
  spec: string
  allowsPrereleases?: boolean
  /** In the spelling of the actions; by default that of the runner. */
  architecture?: string
  /** The folders of the tool cache that fit, in order of preference; by default those of the tool. */
  names?: readonly string[]
  /** Whether the machine's own tool fits if its version does. */
  isSystemAllowed?: boolean
}

/** Finds the tools of a runner. */
export type ToolFinder = {
  /** Finds the newest tool that fits, first in the folders. Throws a VersionError for a malformed specification. */
  find: (request: ToolRequest) => Promise<FoundTool | undefined>
  /** All usable versions of a tool in the folders, by default for the runner's architecture. */
  cached: (tool: SetupTool, architecture?: string) => Promise<CachedTool[]>
  /** The machine's own version of a tool. */
  system: (tool: SetupTool) => Promise<SystemTool | undefined>
}

/** The tools of a runner. */
export type Toolset = ToolFinder & {
  /** Folders with the layout of the tool cache of GitHub's runners. */
  folders: readonly string[]
}

export type ToolsetOptions = {
  folders: readonly string[]
  /** The PATH of steps. */
  path: string
  /** As in `process.arch`. */
  architecture: string
}

/** Opens the tools of a runner. */
export function createToolset(options: ToolsetOptions): Toolset {
  // Imported lazily: few runs need it, and comparing versions costs memory.
  const finder = once(async () => (await import('./find-tool.ts')).createToolFinder(options))
  return {
    folders: options.folders,
    find: async (request) => (await finder()).find(request),
    cached: async (tool, architecture) => (await finder()).cached(tool, architecture),
    system: async (tool) => (await finder()).system(tool),
  }
}
