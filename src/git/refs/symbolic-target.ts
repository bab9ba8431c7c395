/** Parses the content of a ref file; returns the target of a symbolic ref, and undefined for any other content. */
export function symbolicTarget(content: string | undefined): string | undefined {
  return content?.startsWith('ref:') ? content.slice('ref:'.length).trim() : undefined
}
