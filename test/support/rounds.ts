const factor = Number(process.env.SVC_SOAK ?? 1)

/** How often a test repeats what it does at random; `npm run soak` raises it with SVC_SOAK. */
export function toRounds(usual: number): number {
  return Math.ceil(usual * factor)
}
