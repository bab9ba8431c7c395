// Pages are whole without this script: it only makes them quicker to use.
document.documentElement.classList.add('js')

// Loads a page, parsed without scripts by the browser itself; null if there was no response. Global, since each file is
// minified by itself.
globalThis.loadPage = (url, use) => {
  const request = new XMLHttpRequest()
  request.open('GET', url)
  request.responseType = 'document'
  request.onloadend = () => use(request.response, request.status)
  request.send()
}

// A page that the browser has kept for its back button is shown again only to the one who was logged in.
addEventListener('pageshow', ({ persisted }) => {
  const who = (page) => page.querySelector('.top .menu')?.textContent
  if (persisted)
    loadPage(location.href, (page) => {
      if (page && who(page) !== who(document)) location.reload()
    })
})

// Keeps ages current, in the words of `time.ts` of the pages.
{
  const steps = [
    [60, 1, 'second'],
    [3600, 60, 'minute'],
    [86400, 3600, 'hour'],
    [604800, 86400, 'day'],
    [3024000, 604800, 'week'],
    [31536000, 2630016, 'month'],
    [Infinity, 31557600, 'year'],
  ]
  const toAge = (at) => {
    const seconds = (Date.now() - at) / 1000
    if (Math.abs(seconds) < 10) return seconds >= 0 ? 'just now' : 'in a moment'
    const [, size, unit] = steps.find(([limit]) => Math.abs(seconds) < limit)
    const count = Math.max(1, Math.floor(Math.abs(seconds) / size))
    const words = `${count} ${unit}${count === 1 ? '' : 's'}`
    return seconds >= 0 ? `${words} ago` : `in ${words}`
  }
  setInterval(() => {
    for (const time of document.querySelectorAll('time[datetime]'))
      time.textContent = toAge(Date.parse(time.dateTime))
  }, 30000)
}

// Copies the text of the code beside the button.
document.addEventListener('click', (event) => {
  const button = event.target.closest('button.copy')
  if (!button) return
  const text = button.dataset.copy ?? button.parentElement.querySelector('code').textContent
  // Browsers have no clipboard on plain HTTP, where only what is selected can be copied.
  const copySelected = () => {
    const area = document.createElement('textarea')
    area.value = text
    area.readOnly = true
    button.after(area)
    area.select()
    const isCopied = document.execCommand('copy')
    area.remove()
    button.focus()
    if (!isCopied) throw new Error('not copied')
  }
  const written = navigator.clipboard?.writeText(text) ?? Promise.reject()
  written.catch(copySelected).then(
    () => {
      button.setAttribute('aria-label', 'Copied')
      button.classList.add('copied')
      setTimeout(() => {
        button.setAttribute('aria-label', 'Copy')
        button.classList.remove('copied')
      }, 1500)
    },
    () => {},
  )
})

// A key opens the link or focuses the field that names it; an open menu closes on Escape or a click outside.
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape')
    for (const menu of document.querySelectorAll('details.menu[open]')) {
      menu.open = false
      menu.querySelector('summary').focus()
    }
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    event.target.closest('input, textarea, select')
  )
    return
  const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`)
  if (!target) return
  event.preventDefault()
  if (target.matches('input')) target.focus()
  else target.click()
})
document.addEventListener('click', (event) => {
  for (const menu of document.querySelectorAll('details.menu[open]'))
    if (!menu.contains(event.target)) menu.open = false
})
