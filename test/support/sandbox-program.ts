import { openSandbox } from '#actions/sandbox/open-sandbox.ts'
import { runScript } from './sandbox.ts'

// A program that runs a script in a workspace and can be killed: node sandbox-program.ts FOLDER PATH SCRIPT
const [, , folder = '', path = '', script = ''] = process.argv
const limits = {
  memoryMaxBytes: 1024 ** 3,
  processesMax: 100,
  fileMaxBytes: 1024 ** 2,
  freeSpaceMinBytes: 0,
}
const sandbox = await openSandbox({
  ...{ folder, path, limits, network: 'none', mode: 'auto', ownUserAllowed: true },
  ...{ readOnlyPaths: [], hiddenPaths: [] },
})
const workspace = await sandbox.openWorkspace()
process.stdout.write(
  `${JSON.stringify({ isolation: sandbox.isolation.kind, outside: workspace.outside })}\n`,
)
const { output } = await runScript(workspace, script)
await workspace[Symbol.asyncDispose]()
process.stdout.write(`${JSON.stringify({ output })}\n`)
