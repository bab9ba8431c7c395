/** The parts of highlight.js that svc uses. Its own types have those of browsers, too. */
export type Grammar = (core: unknown) => object

type Highlighter = {
  registerLanguage: (name: string, grammar: Grammar) => void
  getLanguage: (name: string) => object | undefined
  configure: (options: { classPrefix: string }) => void
  highlight: (
    text: string,
    options: { language: string; ignoreIllegals: boolean },
  ) => { value: string }
}

declare const module: Highlighter & Grammar
// biome-ignore lint/style/noDefaultExport: the module has one
export default module
