"use strict";
// Browsers start no worker from the file system. There, the worker of the search runs in a hidden frame
// that offers what it expects of its world: importScripts, postMessage and messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #waiting = [];
    #frame = document.createElement("iframe");
    onmessage = null;

    constructor(address) {
      super();
      const script = new URL(address, document.baseURI).href;
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const world = this.#frame.contentWindow;
      const load = (source) => new Promise((resolve, reject) => {
        const element = world.document.createElement("script");
        Object.assign(element, { src: new URL(source, script).href, onload: resolve, onerror: reject });
        world.document.head.append(element);
      });
      world.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      world.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      load(script).then(() => {
        const waiting = this.#waiting;
        this.#waiting = null;
        waiting.forEach((data) => this.#tell(data));
      });
    }

    #tell(data) {
      this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#tell(data);
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
