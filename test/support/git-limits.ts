/** Limits for a git of a test's own, which strike nothing that a test does. */
export const gitLimits = {
  pushMaxBytes: 2 ** 30,
  pushMemoryMaxBytes: 2 ** 30,
  gitMemoryMaxBytes: 2 ** 30,
  gitCpuMaxSeconds: 3600,
}
