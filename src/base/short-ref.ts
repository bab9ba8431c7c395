/** The name of a ref as people write it: `main` for `refs/heads/main`, `v1.0` for `refs/tags/v1.0`; any other in full. */
export function shortRef(ref: string): string {
  return ref.replace(/^refs\/(?:heads|tags)\//, '')
}
