/** What a worker reports. `names` are those of a test and of the suites around it, without its file. */
export type WorkerEvent =
  | { kind: 'started'; names: string[] }
  | { kind: 'skipped'; names: string[]; reason: string }
  | { kind: 'passed'; names: string[] }
  | { kind: 'failed'; names: string[]; error: string }
  | { kind: 'file-ended' }

/** What a worker receives: a file to run, and at last the order to end. */
export type WorkerOrder = { path: string } | { end: true }

/** The name of a test that each file has, and that is not reported. */
export const placeholder = '(placeholder)'
