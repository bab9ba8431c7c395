/** The name of a ref as people write it: `main`, `v1.0`, else in full. */
export function shortRef(ref: string): string {
  return ref.replace(/^refs\/(?:heads|tags)\//, '')
}
