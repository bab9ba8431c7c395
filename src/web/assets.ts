import { hash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { once } from '#base/once.ts'
import { acceptsGzip } from '#http/headers.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'
import type { Links } from './links.ts'
import { fontFiles, scripts, styleSheets } from './style-sheets.ts'

type Asset = {
  type: string
  bytes: Buffer
  /** Its bytes in gzip; undefined if that is not worth it. */
  compressed: () => Buffer | undefined
  hash: string
}

const folder = fileURLToPath(new URL('assets/', import.meta.url))
const fontType = 'font/woff2'
const yearSeconds = 365 * 24 * 60 * 60

/** Serves styles, the script, fonts and icons, by addresses that name their content. */
export function createAssets() {
  const assets = new Map<string, Asset>([
    ...Object.entries(fontFiles).map(readFont),
    ['app.js', toScript([])],
    ...Object.entries(scripts).map(([name, files]): [string, Asset] => [
      `${name}.js`,
      toScript(files),
    ]),
    ['favicon.svg', toAsset('image/svg+xml', read('favicon.svg'))],
  ])
  const base = readStyles(['base'])
  for (const [name, files] of Object.entries(styleSheets)) {
    // Fonts are named by the styles.
    const styles = `${base}${readStyles(files)}`.replace(
      /url\("?fonts\/([\w.-]+)"?\)/g,
      (_, font) => `url("../${assets.get(font)?.hash}/${font}")`,
    )
    assets.set(`${name}.css`, toAsset('text/css; charset=utf-8', Buffer.from(styles)))
  }

  return {
    addressOf: (to: Links, name: string): string =>
      to.own(`assets/${assets.get(name)?.hash}/${name}`),

    /** Serves an asset; returns whether the path is one of an asset. */
    async serve({ request, response, path }: PageExchange): Promise<boolean> {
      const [, given, name = ''] = /^\/-\/assets\/([\w-]{16})\/([\w.-]+)$/.exec(path) ?? []
      const asset = path === '/favicon.svg' ? assets.get('favicon.svg') : assets.get(name)
      const isNamed = given !== undefined && asset?.hash === given
      if (!asset || !(isNamed || path === '/favicon.svg')) return false
      if (request.method !== 'GET' && request.method !== 'HEAD') return false
      const compressed = acceptsGzip(request) ? asset.compressed() : undefined
      const content = compressed ?? asset.bytes
      response.writeHead(200, {
        'content-type': asset.type,
        'content-length': content.length,
        'cache-control': isNamed
          ? `public, max-age=${yearSeconds}, immutable`
          : 'public, max-age=3600',
        'x-content-type-options': 'nosniff',
        'content-security-policy': "default-src 'none'",
        'cross-origin-resource-policy': 'same-origin',
        vary: 'accept-encoding',
        ...(compressed && { 'content-encoding': 'gzip' }),
      })
      response.end(request.method === 'HEAD' ? undefined : content)
      return true
    },
  }
}

/** A font beside the bundle; without a bundle, in its package. */
function readFont([name, path]: [name: string, path: string]): [string, Asset] {
  const built = `${folder}fonts/${name}`
  const file = existsSync(built) ? built : createRequire(import.meta.url).resolve(path)
  return [name, toAsset(fontType, readFileSync(file))]
}

/** Files of styles, one after another. */
function readStyles(files: readonly string[]): string {
  return files.map((file) => read(`css/${file}.css`)).join('')
}

/** A script: the files of all pages and these, one after another. */
function toScript(files: readonly string[]): Asset {
  const parts = ['base', 'live', ...files].map((file) => read(`js/${file}.js`))
  return toAsset('text/javascript; charset=utf-8', Buffer.concat(parts))
}

function read(path: string): Buffer {
  return readFileSync(folder + path)
}

function toAsset(type: string, bytes: Buffer): Asset {
  const compressed = once(() => (type === fontType ? undefined : gzipSync(bytes, { level: 9 })))
  return { type, bytes, compressed, hash: hash('sha256', bytes, 'base64url').slice(0, 16) }
}
