import { spawn } from 'node:child_process'

/** The program that opens an address in a browser of this machine; undefined if there is none, as over SSH. */
export function browserOf(environment: NodeJS.ProcessEnv): string | undefined {
  const { BROWSER, SSH_CONNECTION, DISPLAY, WAYLAND_DISPLAY } = environment
  if (BROWSER) return BROWSER
  if (SSH_CONNECTION) return undefined
  if (process.platform === 'darwin') return 'open'
  return DISPLAY || WAYLAND_DISPLAY ? 'xdg-open' : undefined
}

/** Opens an address. A browser that cannot be started is no error: the address is shown, too. */
export function openBrowser(environment: NodeJS.ProcessEnv, address: string): void {
  const browser = browserOf(environment)
  if (browser === undefined) return
  const child = spawn(browser, [address], { env: environment, stdio: 'ignore', detached: true })
  child.on('error', () => {})
  child.unref()
}
