/** Whether every runner has a label of `runs-on`. */
export function isBuiltInLabel(label: string): boolean {
  return /^(ubuntu-.+|linux|self-hosted|x64|arm64|default)$/i.test(label)
}

/** Whether a label names a system that no runner has. */
export function isForeignLabel(label: string): boolean {
  return /^(windows|macos)(-.*)?$/i.test(label)
}
