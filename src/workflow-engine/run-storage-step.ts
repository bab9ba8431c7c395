import type { StorageAction } from '../workflow-parser/workflow.ts'
import { runDownloadArtifact, runUploadArtifact } from './artifact-steps.ts'
import { runCache, runCacheRestore, runCacheSave } from './cache-steps.ts'
import { evaluateEnvironment, evaluateTimeout } from './evaluate-settings.ts'
import { createHashFiles } from './hash-files.ts'
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
  const { run, workspace } = running
  const timeoutMs = evaluateTimeout(step.timeoutMinutes, scope, run.plan.limits)
  const entries = Object.entries(evaluateEnvironment(step.with, scope))
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
    running.hashFiles = createHashFiles(workspace)
  }
}
