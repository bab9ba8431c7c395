// Keeps a page current by its stream of events, while its tab is shown.
{
  const main = document.querySelector('main[data-live]')
  const most = 2000
  const early = new Map()
  let source
  let after
  let timer
  let isStale = false
  let isEnded = false

  const toNode = ([classes, text]) => {
    if (!classes) return text
    const span = document.createElement('span')
    span.className = classes
    span.textContent = text
    return span
  }

  // Asks for the page again, and takes over its parts that have changed.
  const refresh = (waitMs = 600) => {
    isStale = true
    if (timer) return
    timer = setTimeout(() => {
      const url = new URL(location.href)
      url.searchParams.set('state', '')
      isStale = false
      loadPage(url, (page, status) => {
        timer = undefined
        if (page && status === 200) takeOver(page)
        // A change that was announced meanwhile may be missing from this page.
        if (isStale) refresh()
        else if (!page || status === 429 || status >= 500) refresh(9000)
      })
    }, waitMs)
  }
  const takeOver = (page) => {
    for (const part of page.querySelectorAll('[data-part]')) {
      const old = document.getElementById(part.id)
      if (!old)
        document.getElementById(part.parentElement.id)?.append(document.importNode(part, true))
      else if (part.dataset.part === 'new') {
        if (part.open && !old.open && !old.dataset.seen) old.open = true
        if (part.open) old.dataset.seen = ''
      } else if (old.innerHTML !== part.innerHTML) {
        const focused = old.contains(document.activeElement) && document.activeElement.href
        old.className = part.className
        old.replaceChildren(...document.importNode(part, true).childNodes)
        if (focused) [...old.querySelectorAll('a')].find(({ href }) => href === focused)?.focus()
      }
    }
    const empty = document.getElementById('run-empty')
    if (empty && !page.getElementById('run-empty')) empty.remove()
    for (const [step, lines] of early) append(step, lines)
  }

  const append = (step, lines) => {
    const log = document.getElementById(`log-${step}`)
    if (!log) {
      early.set(step, [...(early.get(step) ?? []), ...lines].slice(-most))
      return refresh()
    }
    early.delete(step)
    const end = log.getBoundingClientRect().bottom
    const follows = scrollY > 0 && end > 0 && end < innerHeight + 60
    let number = log.lastLine ?? log.start + log.querySelectorAll('li').length
    for (const segments of lines) {
      const line = document.createElement('li')
      line.id = `s${step}-L${number}`
      line.value = number++
      line.append(...segments.map(toNode))
      log.append(line)
    }
    log.lastLine = number
    while (log.children.length > most) log.firstElementChild.remove()
    if (follows) scrollBy(0, log.getBoundingClientRect().bottom - end)
  }

  const announce = (parts) => {
    const notice = document.getElementById('live-notice') ?? document.createElement('div')
    Object.assign(notice, { id: 'live-notice', className: 'notice', role: 'status' })
    const text = document.createElement('p')
    // The address without its fragment, to which a link would only scroll.
    const href = location.pathname + location.search
    const link = Object.assign(document.createElement('a'), { href, textContent: 'reload' })
    text.append(...parts.map((part) => part.text ?? part), ' just now · ', link)
    notice.replaceChildren(text)
    main.prepend(notice)
  }

  const open = () => {
    if (source || isEnded || document.hidden) return
    const url = new URL(main.dataset.live, location.href)
    if (after) url.searchParams.set('after', after)
    source = new EventSource(url)
    // The browser gives up on a response that is no stream, such as of a proxy while the server starts again.
    source.onerror = () => {
      if (source?.readyState === 2) {
        close()
        setTimeout(open, 9000)
      }
    }
    const on = (kind, take) =>
      source.addEventListener(kind, (event) => {
        after = event.lastEventId || after
        take(JSON.parse(event.data))
      })
    const isList = document.querySelector('main ol.events, #runs, #pushes, #events')
    on('at', () => {})
    on('push', isList ? () => refresh() : announce)
    on('other', () => refresh())
    on('state', () => refresh())
    on('output', ({ step, lines }) => append(step, lines))
    on('end', () => {
      isEnded = true
      source.close()
      refresh()
    })
  }
  const close = () => {
    source?.close()
    source = undefined
  }
  if (main) {
    open()
    document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()))
    // A page that waits behind the back button has no stream either.
    addEventListener('pagehide', close)
    addEventListener('pageshow', open)
  }

  // Durations of what runs go on.
  setInterval(() => {
    for (const node of document.querySelectorAll('[data-since]')) {
      const seconds = Math.round((Date.now() - node.dataset.since) / 1000)
      const [size, unit, less] = seconds < 3600 ? [60, 'min', 's'] : [3600, 'h', 'min']
      const rest = Math.floor((seconds % size) / (size / 60))
      const words = [Math.floor(seconds / size), unit, rest, less].join(' ')
      if (seconds > 0) node.textContent = words.replace(/^0 \w+ | 0 \w+$/g, '')
    }
  }, 1000)
}
