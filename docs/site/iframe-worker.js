// Browsers start no worker from a file: in a site that is opened as files, search runs in a frame.
// Zensical loads a script of another host unless one of this name is configured.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => queueMicrotask(() => this.onmessage?.({ data }));
      this.loaded = new Promise((loaded) => {
        const script = inner.document.createElement("script");
        script.src = url;
        script.onload = () => loaded(inner);
        script.onerror = (event) => this.onerror?.(event);
        inner.document.head.append(script);
      });
    }

    postMessage(data) {
      this.loaded.then((inner) => inner.onmessage({ data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
