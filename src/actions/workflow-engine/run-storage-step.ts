import type { StorageAction } from '../workflow-parser/workflow.ts'
import { runDownloadArtifact, runUploadArtifact } from './artifact-steps.ts'
import { runCache, runCacheRestore, runCacheSave } from './cache-steps.ts'
import { evaluateEnvironment, evaluateTimeout } from './evaluate-settings.ts'
import type { StepEnd } from './step-end.ts'
import { type StorageContext, withinTime } from './storage-step.ts'

type Options = Omit<StorageContext, 'timeoutMs' | 'inputs' | 'storage'>

const actions: Record<StorageAction, (context: StorageContext) => Promise<StepEnd>> = {
  cache: runCache,
  'cache/restore': runCacheRestore,
  'cache/save': runCacheSave,
  'upload-artifact': runUploadArtifact,
  'download-artifact': runDownloadArtifact,
}

/** Runs a step that keeps files, or gets those that another one kept. */
export async function runStorageStep(options: Options): Promise<StepEnd> {
  const { running, step, scope, signal } = options
  const { run, files } = running
  const { timeoutMs, inputs } = await files.evaluate(() => ({
    timeoutMs: evaluateTimeout(step.timeoutMinutes, scope, run.plan.limits),
    inputs: evaluateEnvironment(step.with, scope),
  }))
  const entries = Object.entries(inputs)
  try {
    return await withinTime({ signal, timeoutMs }, (limited) =>
      actions[step.action]({
        ...options,
        inputs: new Map(entries.map(([name, value]) => [name.toLowerCase(), value])),
        timeoutMs,
        signal: limited,
        storage: run.storage,
      }),
    )
  } finally {
    running.files.forgetHashes()
  }
}
