import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export type Certificate = { key: string; cert: string }

/** Makes a certificate authority in a folder, and certificates of it, with the program openssl. */
export async function createAuthority(folder: string) {
  const openssl = (...args: string[]) => run('openssl', args, { cwd: folder })
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const signed = ['-x509', '-days', '2', '-subj', '/CN=authority', '-out', 'ca.pem']
  await openssl('req', ...signed, ...newKey, '-keyout', 'ca.key')
  let number = 0

  async function read(name: string): Promise<Certificate> {
    const [key, cert] = await Promise.all([
      readFile(join(folder, `${name}.key`), 'utf8'),
      readFile(join(folder, `${name}.pem`), 'utf8'),
    ])
    return { key, cert }
  }

  return {
    /** The file to trust it by. */
    path: join(folder, 'ca.pem'),

    /** A certificate for a host; one of less than no days has expired. */
    async issue(host: string, { days = 2 } = {}): Promise<Certificate> {
      const name = `c${number++}`
      const subject = ['-subj', '/CN=receiver']
      await openssl('req', ...newKey, ...subject, '-keyout', `${name}.key`, '-out', `${name}.csr`)
      await writeFile(join(folder, `${name}.ext`), `subjectAltName=DNS:${host}`)
      const by = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial']
      const what = ['-days', String(days), '-extfile', `${name}.ext`]
      await openssl('x509', '-req', '-in', `${name}.csr`, ...by, ...what, '-out', `${name}.pem`)
      return read(name)
    },

    /** A certificate that vouches for itself. */
    async selfSigned(host: string): Promise<Certificate> {
      const name = `c${number++}`
      const about = ['-x509', '-days', '2', '-subj', `/CN=${host}`]
      const target = ['-keyout', `${name}.key`, '-out', `${name}.pem`]
      const alternative = ['-addext', `subjectAltName=DNS:${host}`]
      await openssl('req', ...about, ...newKey, ...target, ...alternative)
      return read(name)
    },
  }
}
