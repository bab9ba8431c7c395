import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { minifySync } from 'rolldown/utils'

/** Makes the styles and scripts below a folder smaller, in place. */
export function minifyAssets(folder: string): void {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const minify = name.endsWith('.css') ? minifyStyles : name.endsWith('.js') ? minifyScript : null
    const path = join(folder, name)
    if (minify) writeFileSync(path, minify(readFileSync(path, 'utf8')))
  }
}

function minifyScript(text: string): string {
  const { code, errors } = minifySync('asset.js', text, { module: true })
  if (errors.length > 0) throw new Error(errors.map(({ message }) => message).join('\n'))
  return code
}

/** Takes comments out of styles, and white space where it means nothing. Strings stay as they are. */
export function minifyStyles(text: string): string {
  return text.replace(
    /("[^"\n]*")|\/\*.*?\*\/|;\s*(?=\})|\s*([{};,])\s*|(:) +|(\s+)/gs,
    (_, string = '', mark = '', colon = '', space = '') =>
      string || mark || colon || (space && ' '),
  )
}
