import { toSandboxOptions } from '#actions/runner/runner-configuration.ts'
import { probeSandbox } from '#actions/sandbox/open-sandbox.ts'
import type { Log } from '#base/log.ts'
import type { Settings } from '#config/settings.ts'

type Options = { settings: Settings; path: string; log: Log }

/**
 * Logs at start-up how workflow steps will be isolated from this machine, so that an operator knows before anything
 * runs. Never rejects.
 */
export async function reportIsolation({ settings, path, log }: Options): Promise<void> {
  const sandbox = toSandboxOptions(settings)
  const limits = { ...sandbox.limits, freeSpaceMinBytes: 0 }
  try {
    const { isolation, fault } = await probeSandbox({ ...sandbox, path, limits })
    const level = fault === undefined ? 'info' : 'warn'
    const { kind, memoryLimit, description } = isolation
    log[level]({ isolation: kind, memoryLimit }, description)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    log.warn({ reason }, 'workflow steps cannot run on this machine')
  }
}
