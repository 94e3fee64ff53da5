/* A page that is opened from disk may not start a Worker, and the search of the site is one. Here a
 * hidden frame plays the worker: the same script, the same messages, in the page's own thread. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      const inside = frame.contentWindow
      const load = source => new Promise((done, failed) => {
        const script = inside.document.createElement("script")
        script.src = source
        script.onload = done
        script.onerror = failed
        inside.document.body.appendChild(script)
      })
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve())
      this.inside = inside
      this.ready = load(new URL(url, location.href).href)
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
