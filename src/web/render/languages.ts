import hljs from '#highlight/core'
import bash from '#highlight/languages/bash'
import c from '#highlight/languages/c'
import clojure from '#highlight/languages/clojure'
import cmake from '#highlight/languages/cmake'
import cpp from '#highlight/languages/cpp'
import csharp from '#highlight/languages/csharp'
import css from '#highlight/languages/css'
import dart from '#highlight/languages/dart'
import diff from '#highlight/languages/diff'
import dockerfile from '#highlight/languages/dockerfile'
import elixir from '#highlight/languages/elixir'
import erlang from '#highlight/languages/erlang'
import fsharp from '#highlight/languages/fsharp'
import go from '#highlight/languages/go'
import gradle from '#highlight/languages/gradle'
import graphql from '#highlight/languages/graphql'
import groovy from '#highlight/languages/groovy'
import haskell from '#highlight/languages/haskell'
import ini from '#highlight/languages/ini'
import java from '#highlight/languages/java'
import javascript from '#highlight/languages/javascript'
import json from '#highlight/languages/json'
import julia from '#highlight/languages/julia'
import kotlin from '#highlight/languages/kotlin'
import latex from '#highlight/languages/latex'
import less from '#highlight/languages/less'
import lua from '#highlight/languages/lua'
import makefile from '#highlight/languages/makefile'
import markdown from '#highlight/languages/markdown'
import nginx from '#highlight/languages/nginx'
import nix from '#highlight/languages/nix'
import objectivec from '#highlight/languages/objectivec'
import ocaml from '#highlight/languages/ocaml'
import perl from '#highlight/languages/perl'
import php from '#highlight/languages/php'
import powershell from '#highlight/languages/powershell'
import protobuf from '#highlight/languages/protobuf'
import python from '#highlight/languages/python'
import r from '#highlight/languages/r'
import ruby from '#highlight/languages/ruby'
import rust from '#highlight/languages/rust'
import scala from '#highlight/languages/scala'
import scss from '#highlight/languages/scss'
import sql from '#highlight/languages/sql'
import swift from '#highlight/languages/swift'
import typescript from '#highlight/languages/typescript'
import vim from '#highlight/languages/vim'
import xml from '#highlight/languages/xml'
import yaml from '#highlight/languages/yaml'

const grammars = {
  ...{ bash, c, clojure, cmake, cpp, csharp, css, dart, diff, dockerfile, elixir, erlang, fsharp },
  ...{ go, gradle, graphql, groovy, haskell, ini, java, javascript, json, julia, kotlin, latex },
  ...{ less, lua, makefile, markdown, nginx, nix, objectivec, ocaml, perl, php, powershell },
  ...{ protobuf, python, r, ruby, rust, scala, scss, sql, swift, typescript, vim, xml, yaml },
}

/** The names of all languages, each of which is also an extension of file names. */
export const languageNames = Object.keys(grammars)

for (const [name, grammar] of Object.entries(grammars)) hljs.registerLanguage(name, grammar)
hljs.configure({ classPrefix: 'h-' })

/** The languages of file names and extensions that are no names or aliases of the language itself. */
const byName = new Map(
  Object.entries({
    'cmakelists.txt': 'cmake',
    gemfile: 'ruby',
    rakefile: 'ruby',
    gnumakefile: 'makefile',
    containerfile: 'dockerfile',
    jenkinsfile: 'groovy',
    '.bashrc': 'bash',
    '.profile': 'bash',
    '.gitconfig': 'ini',
    '.editorconfig': 'ini',
    '.vimrc': 'vim',
    pkgbuild: 'bash',
  }),
)
const byExtension = new Map(
  Object.entries({
    cjs: 'javascript',
    mjs: 'javascript',
    cts: 'typescript',
    mts: 'typescript',
    conf: 'ini',
    cfg: 'ini',
    service: 'ini',
    desktop: 'ini',
    ex: 'elixir',
    exs: 'elixir',
    hxx: 'cpp',
    cxx: 'cpp',
    mk: 'makefile',
    ml: 'ocaml',
    mli: 'ocaml',
    patch: 'diff',
    pm: 'perl',
    proto: 'protobuf',
    pyi: 'python',
    sty: 'latex',
    vue: 'xml',
    svelte: 'xml',
    html: 'xml',
    svg: 'xml',
    webmanifest: 'json',
    jsonl: 'json',
  }),
)

/** The language of a file by its name alone; undefined for text without highlighting. */
export function languageOf(fileName: string): string | undefined {
  const name = fileName.toLowerCase()
  const extension = name.slice(name.lastIndexOf('.') + 1)
  const named = byName.get(name) ?? (Object.hasOwn(grammars, name) ? name : undefined)
  if (named !== undefined || !name.includes('.')) return named
  return byExtension.get(extension) ?? knownLanguage(extension)
}

/** A language by its name or alias, if it is known. */
export function knownLanguage(name: string): string | undefined {
  return hljs.getLanguage(name) ? name : undefined
}

/** Highlights a text in a language: HTML, whose elements may span lines. */
export function highlight(text: string, language: string): string {
  return hljs.highlight(text, { language, ignoreIllegals: true }).value
}
