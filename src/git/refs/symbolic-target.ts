/** The ref that a symbolic ref with this content names; undefined when the content is of another kind. */
export function symbolicTarget(content: string | undefined): string | undefined {
  return content?.startsWith('ref:') ? content.slice('ref:'.length).trim() : undefined
}
