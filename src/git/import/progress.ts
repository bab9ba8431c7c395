/** The current phase of an import, and its overall progress in percent; that of LFS objects has its own. */
export type Progress = { phase: Phase; percent: number }

type Phase = 'waiting' | 'copying' | 'counting' | 'receiving' | 'resolving' | 'storing' | 'lfs'

type Stage = { pattern: RegExp; phase: Phase; from: number; to: number }

// The share of time that each phase takes for most repositories.
const stages: Stage[] = [
  { pattern: /^(remote: )?(Enumerating|Counting) objects:/, phase: 'counting', from: 0, to: 5 },
  { pattern: /^(remote: )?Compressing objects:/, phase: 'counting', from: 5, to: 10 },
  { pattern: /^(Receiving|Indexing) objects:/, phase: 'receiving', from: 10, to: 75 },
  { pattern: /^Resolving deltas:/, phase: 'resolving', from: 75, to: 95 },
  { pattern: /^Checking connectivity:/, phase: 'storing', from: 95, to: 99 },
]

/** Parses a line of git's progress; undefined for any other line. */
export function readProgress(line: string): Progress | undefined {
  const stage = stages.find(({ pattern }) => pattern.test(line))
  if (!stage) return undefined
  const { phase, from, to } = stage
  const [, share = '0'] = /(\d{1,3})%/.exec(line) ?? []
  return { phase, percent: Math.floor(from + ((to - from) * Math.min(Number(share), 100)) / 100) }
}
