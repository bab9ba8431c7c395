import { closeSync, readdirSync, readFileSync } from 'node:fs'

// fcntl(2); proc(5), /proc/pid/fdinfo, has the flags in octal.
const closeOnExec = 0o2000000
const firstAfterStandard = 3

/**
 * Closes what this process inherited beyond standard input, output and error, such as a log file or a lock of the shell
 * that started it: every process started from here would inherit it, too, steps of workflows included. Node opens all its
 * descriptors close-on-exec, and marks the lowest inherited ones (libuv, uv_disable_stdio_inheritance); a descriptor
 * without the mark was inherited.
 */
export function closeInheritedDescriptors(): void {
  for (const descriptor of openDescriptors()) {
    if (descriptor >= firstAfterStandard && isInheritable(descriptor)) close(descriptor)
  }
}

function openDescriptors(): number[] {
  try {
    return readdirSync('/proc/self/fdinfo').map(Number)
  } catch {
    // Only Linux has it.
    return []
  }
}

function isInheritable(descriptor: number): boolean {
  try {
    const text = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')
    const [, flags] = /^flags:\s*([0-7]+)$/m.exec(text) ?? []
    return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0
  } catch {
    // It was the descriptor of the listing itself, and is closed.
    return false
  }
}

function close(descriptor: number): void {
  try {
    closeSync(descriptor)
  } catch {
    // EBADF: it is closed already.
  }
}
