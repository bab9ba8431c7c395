import { readdir, realpath, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { toStepPath } from '#actions/runner/runner-configuration.ts'
import { listVersions } from '#actions/tool-cache/find-tool.ts'
import { type CachedTool, readToolCache } from '#actions/tool-cache/read-tool-cache.ts'
import { cacheFolders, toolKinds } from '#actions/tool-cache/tool-kinds.ts'
import { createToolset, type Toolset } from '#actions/tool-cache/toolset.ts'
import type { SetupTool } from '#actions/workflow-parser/setup-actions.ts'
import { shellWord } from '#base/shell-word.ts'
import type { Check } from '../check.ts'
import type { DoctorContext } from '../context.ts'
import { type Findings, firstOf, messageOf, ok, warning } from '../finding.ts'

/** Lists the tools that steps such as actions/setup-node find, and checks the folders of SVC_TOOLS. */
export const toolsCheck: Check = {
  id: 'tools',
  title: 'tools by version',
  async run(context) {
    if (!context.hasRunner()) {
      return ok('SVC_RUNNER is off: only other runners execute workflows.')
    }
    const folders = context.setting('tools') ?? []
    const faults: Findings[] = []
    for (const folder of folders) faults.push(await folderFindings(folder, context))
    return [firstOf(faults), await toolFindings(folders, context)]
  },
}

async function toolFindings(folders: string[], context: DoctorContext): Promise<Findings> {
  const isolation = context.setting('sandbox') === 'none' ? 'none' : 'bubblewrap'
  const readOnlyPaths = [...(context.setting('sandboxPaths') ?? []), ...folders]
  const path = toStepPath({ path: context.path, isolation, readOnlyPaths })
  // Folders that cannot be read have findings of their own.
  const readable: string[] = []
  for (const folder of folders) {
    const isReadable = await readdir(folder).then(
      () => true,
      () => false,
    )
    if (isReadable) readable.push(folder)
  }
  const toolset = createToolset({ folders: readable, path, architecture: process.arch })
  // `toolKinds` has no other keys.
  const tools = Object.keys(toolKinds) as SetupTool[]
  const lines = (await Promise.all(tools.map((tool) => describeTool(tool, toolset)))).flat()
  return lines.length > 0
    ? lines.map(ok)
    : [ok('None: SVC_TOOLS names none, and the PATH of steps has none that a setup action uses.')]
}

async function describeTool(tool: SetupTool, toolset: Toolset): Promise<string[]> {
  const [cached, system] = await Promise.all([toolset.cached(tool), toolset.system(tool)])
  const versions = listVersions(tool, cached)
  if (system) versions.push(`${system.version} (${system.program})`)
  return versions.length > 0 ? [`${toolKinds[tool].title} ${versions.join('; ')}.`] : []
}

async function folderFindings(folder: string, context: DoctorContext): Promise<Findings> {
  try {
    const names = await readdir(folder)
    const tools = await readToolCache(folder)
    const findings = await Promise.all(tools.map((tool) => toolFinding(tool, folder, context)))
    return [...names.map((name) => nameFinding(folder, name)), ...findings]
  } catch (error) {
    const fix = 'Create the folder, or correct SVC_TOOLS.'
    return warning(`The folder ${folder} of SVC_TOOLS cannot be read: ${messageOf(error)}.`, fix)
  }
}

// GitHub's spelling matters: Python, but node.
function nameFinding(folder: string, name: string): Findings {
  const meant = cacheFolders.find((candidate) => candidate.toLowerCase() === name.toLowerCase())
  if (meant === undefined || meant === name) return []
  const found = `${join(folder, name)} is not used: the folder must be named ${meant}.`
  return warning(found, `mv ${shellWord(join(folder, name))} ${shellWord(join(folder, meant))}`)
}

async function toolFinding(
  { path, isComplete, program, tool }: CachedTool,
  folder: string,
  context: DoctorContext,
): Promise<Findings> {
  if (!isComplete) {
    return warning(
      `${path} is incomplete, and not used: there is no ${path}.complete.`,
      `Install it again; if it is complete: touch ${shellWord(`${path}.complete`)}`,
    )
  }
  const { programs } = toolKinds[tool]
  if (program === undefined) {
    const found = `${path} has no program ${programs[0]}, and is not used.`
    return warning(found, 'Install it again.')
  }
  const real = await realpath(program)
  const readable = ['/usr', '/opt', folder, ...(context.setting('sandboxPaths') ?? [])]
  const roots = await Promise.all(readable.map((root) => realpath(root).catch(() => root)))
  if (!roots.some((root) => `${real}/`.startsWith(`${root}/`))) {
    return warning(
      `${program} leads to ${real}, which steps cannot read.`,
      `Install it in the folder itself, or add ${shellWord(dirname(real))} to SVC_SANDBOX_PATHS.`,
    )
  }
  // Only root gives steps users of their own.
  const { mode } = await stat(real)
  if (process.getuid?.() === 0 && (mode & 0o005) !== 0o005) {
    const found = `${program} cannot be executed by other users, such as those of steps.`
    return warning(found, `chmod -R a+rX ${shellWord(path)}`)
  }
  return []
}
