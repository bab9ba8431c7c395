import { once } from '#base/once.ts'
import type { ToolFinder, ToolsetOptions } from './find-tool.ts'

/** The tools of a runner. */
export type Toolset = ToolFinder & {
  /** Folders with the layout of the tool cache of GitHub's runners. */
  folders: readonly string[]
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
