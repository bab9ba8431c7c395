import { existsSync, lstatSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { emptyFolder } from './hidden-paths.ts'

// The files in /etc that programs need; others reveal details of the machine and its users.
const etcFiles =
  /^(ld\.so\..*|alternatives|ssl|ca-certificates|ca-certificates\.conf|pki|nsswitch\.conf|localtime|timezone|os-release|debian_version|mime\.types|services|protocols|terminfo|perl|python3.*|java.*|fonts|bash\.bashrc|profile|inputrc|gitconfig)$/
const etcNetworkFiles = /^(resolv\.conf|host\.conf|gai\.conf)$/
const topFolders = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32']

/** The paths of the machine that steps can read, and the arguments of bubblewrap that mount them. */
export function systemMounts(network: 'none' | 'full'): { args: string[]; shown: string[] } {
  const inEtc = readdirSync('/etc')
    .filter((name) => etcFiles.test(name) || (network === 'full' && etcNetworkFiles.test(name)))
    .map((name) => `/etc/${name}`)
  const folders = ['/usr', ...(existsSync('/opt') ? ['/opt'] : [])]
  const args = [
    ...folders.flatMap((path) => readOnly(path)),
    ...topFolders.flatMap(sameAsOutside),
    // Some are dangling links.
    ...inEtc.flatMap((path) => readOnly(path, '--ro-bind-try')),
    // Private keys of the machine's certificates, which a group of its users may read.
    ...(existsSync('/etc/ssl/private') ? emptyFolder('/etc/ssl/private') : []),
  ]
  return { args, shown: [...folders, ...topFolders.map((name) => `/${name}`), ...inEtc] }
}

function readOnly(path: string, option = '--ro-bind'): string[] {
  return [option, path, path]
}

// On most current systems these are links into /usr.
function sameAsOutside(name: string): string[] {
  const path = join('/', name)
  try {
    return lstatSync(path).isSymbolicLink()
      ? ['--symlink', readlinkSync(path), path]
      : readOnly(path)
  } catch (error) {
    return ignoreAbsence(error) ?? []
  }
}
