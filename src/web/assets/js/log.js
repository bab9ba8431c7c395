// Opens what a line of a log is folded in. One that is not on the page is shown by a page of the whole log.
{
  const show = () => {
    const [, step, line, more] = /^#(?:s(\d+)-)?L(\d+)(.*)/.exec(location.hash) ?? []
    const log = line && document.querySelector(step ? `#log-${step}` : '.log')
    if (!log) return
    const found = document.getElementById(location.hash.slice(1, -more.length || undefined))
    if (found) {
      for (let part = found; part; part = part.parentElement)
        if (part.localName === 'details') part.open = true
      return found.scrollIntoView()
    }
    const url = new URL(log.dataset.all, location.href)
    url.searchParams.set('at', line)
    url.hash = `L${line}${more}`
    location.replace(url)
  }
  show()
  addEventListener('hashchange', show)

  // A run that is shown while it goes on is shown from the end of its output.
  const log = [...document.querySelectorAll('main[data-live*="/live?"] .step[open] .log')].at(-1)
  const beyond = log && log.getBoundingClientRect().bottom - innerHeight
  if (beyond > 0 && !location.hash) scrollTo(0, beyond + 16)
}
