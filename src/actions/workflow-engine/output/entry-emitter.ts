import { maskAndShorten } from '../../secret-masking/mask-and-shorten.ts'
import type { Masker } from '../../secret-masking/masker.ts'
import type { RunEntry } from '../plan.ts'

/** Reports an entry, in the order of the calls. Never rejects: the caller runs on until the run is cancelled. */
export type Emit = (entry: RunEntry) => Promise<void>

const nameMaxLength = 500
const faultMaxLength = 4000

type Options = {
  report: (entry: RunEntry) => void | Promise<void>
  masker: Masker
  /** Called when `report` has failed; must end the run. */
  onFailure: (error: unknown) => void
}

/** Creates an emitter that masks and shortens entries. Step output has already been masked as a stream. */
export function createEntryEmitter({ report, masker, onFailure }: Options): Emit {
  const { mask } = masker
  const name = (text: string) =>
    maskAndShorten(text, { mask: (it) => oneLine(mask(it)), maxLength: nameMaxLength })
  const fault = (text: string) => maskAndShorten(text, { mask, maxLength: faultMaxLength })

  function toSafe(entry: RunEntry): RunEntry {
    switch (entry.kind) {
      case 'isolation':
        return { ...entry, description: fault(entry.description) }
      case 'job-planned':
        return {
          ...entry,
          workflow: name(entry.workflow),
          name: name(entry.name),
          matrix: masker.mask(entry.matrix),
        }
      case 'step-planned':
        return { ...entry, name: name(entry.name) }
      case 'job-ended':
        return { ...entry, fault: fault(entry.fault), outputs: maskValues(entry.outputs, masker) }
      case 'step-ended':
        return { ...entry, fault: fault(entry.fault), summary: masker.mask(entry.summary) }
      case 'annotation':
        return {
          ...entry,
          file: masker.finds(entry.file) ? '' : entry.file,
          title: name(entry.title),
          message: fault(entry.message),
        }
      case 'output':
        return entry.step === null ? { ...entry, text: masker.mask(entry.text) } : entry
      case 'run-ended':
        return { ...entry, fault: fault(entry.fault) }
      case 'step-started':
        return entry.name === undefined ? entry : { ...entry, name: name(entry.name) }
      case 'job-started':
        return entry
    }
  }

  return async (entry) => {
    try {
      await report(toSafe(entry))
    } catch (error) {
      onFailure(error)
    }
  }
}

function maskValues(values: Record<string, string>, masker: Masker): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, masker.mask(value)]))
}

function oneLine(text: string): string {
  return text.replaceAll(/[\s\0]+/g, ' ').trim()
}
