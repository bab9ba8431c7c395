import { closeSync, readdirSync, readFileSync } from 'node:fs'

// fcntl(2); proc(5), /proc/pid/fdinfo, has the flags in octal.
const closeOnExec = 0o2000000
const firstAfterStandard = 3

/**
 * Closes the descriptors that this process inherited beyond standard input, output and error, such as a log file or a
 * lock of the shell that started it. Otherwise every child process, workflow steps included, would inherit them, too.
 * Node opens its descriptors close-on-exec and marks the lowest inherited ones (libuv, uv_disable_stdio_inheritance),
 * so any other descriptor without the flag was inherited.
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
    // Linux only.
    return []
  }
}

function isInheritable(descriptor: number): boolean {
  try {
    const text = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')
    const [, flags] = /^flags:\s*([0-7]+)$/m.exec(text) ?? []
    return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0
  } catch {
    // The descriptor of the directory listing itself, closed by now.
    return false
  }
}

function close(descriptor: number): void {
  try {
    closeSync(descriptor)
  } catch {
    // EBADF: closed already.
  }
}
