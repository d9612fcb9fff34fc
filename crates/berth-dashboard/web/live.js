// Puts what the server renders in its place as it changes. Without this file the page is the same, and stands still.
"use strict";

(() => {
  const page = document.body.dataset.stream;
  const light = document.getElementById("connection");
  // Where this session's pages are. Its cookie is sent nowhere else: no other port of this host gets it, as it gets no storage of this one.
  const base = (location.pathname.match(/^\/~[^/]+/) || [""])[0];
  let seen = document.body.dataset.seen;
  let source = null;
  let pause = 1000;

  const say = (text, state) => {
    if (light && light.dataset.state !== state) {
      light.dataset.state = state;
      light.textContent = text;
    }
  };

  // What has the focus, so that it can have it again when its part was put in anew.
  const mark = (part) => {
    const focused = document.activeElement;
    if (!focused || focused === document.body || !part.contains(focused)) return null;
    const same = (element) => element.tagName === focused.tagName && element.id === focused.id && element.getAttribute("href") === focused.getAttribute("href");
    const place = [...part.querySelectorAll(focused.tagName)].filter(same).indexOf(focused);
    const left = focused.scrollLeft;
    return () => {
      const again = [...part.querySelectorAll(focused.tagName)].filter(same)[place];
      if (again) {
        again.focus({ preventScroll: true });
        again.scrollLeft = left;
      }
    };
  };

  const put = ([name, html]) => {
    const part = document.getElementById("part-" + name);
    if (!part) return;
    const focus = mark(part);
    const open = new Set([...part.querySelectorAll("details[open]")].map((details) => details.id));
    const scrolled = [...part.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    part.innerHTML = html;
    part.querySelectorAll("details").forEach((details) => { details.open = details.open || open.has(details.id); });
    part.querySelectorAll(".scroll").forEach((box, index) => { box.scrollLeft = scrolled[index] || 0; });
    if (focus) focus();
    const titled = part.querySelector("[data-title]");
    if (titled) document.title = titled.dataset.title;
  };

  // An address without a session leads to the page to sign in. Who has one here goes on there, once: it may have ended.
  const remembered = () => {
    const next = document.querySelector("input[name=next]");
    try {
      if (base) return localStorage.setItem("base", base);
      const known = localStorage.getItem("base");
      localStorage.removeItem("base");
      if (known && next && next.value.startsWith("/")) location.replace(known + next.value);
    } catch {
      // A browser that keeps nothing has its reader sign in.
    }
  };
  remembered();

  const end = () => {
    if (source) source.close();
    source = null;
  };

  // Where the session has ended, as with a server that was started anew, every page leads to the one to sign in.
  const signInAnew = () => {
    fetch(location.href, { redirect: "manual", cache: "no-store" }).then((answer) => {
      if (answer.type === "opaqueredirect") location.reload();
    }, () => {});
  };

  const begin = () => {
    if (!page || source || document.hidden) return;
    source = new EventSource(base + "/stream?page=" + encodeURIComponent(page) + "&seen=" + seen);
    source.onopen = () => {
      pause = 1000;
      say("live", "live");
    };
    source.onmessage = (event) => {
      JSON.parse(event.data).forEach(put);
      seen = event.lastEventId;
      document.body.dataset.seen = seen;
    };
    source.addEventListener("gone", () => {
      end();
      say("deleted", "lost");
    });
    source.onerror = () => {
      say("connection lost, reconnecting", "lost");
      // A browser tries again by itself unless it was refused.
      if (source && source.readyState === EventSource.CLOSED) {
        end();
        signInAnew();
        setTimeout(begin, pause);
        pause = Math.min(2 * pause, 15000);
      }
    };
  };

  // A page that nobody sees holds no connection: browsers have few for each host.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) end();
    else begin();
  });
  // One that comes back by the back button goes on from what it has.
  window.addEventListener("pagehide", end);
  window.addEventListener("pageshow", begin);

  // One key to the search, as elsewhere.
  document.addEventListener("keydown", (event) => {
    const search = document.getElementById("search");
    if (event.key !== "/" || !search || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
    event.preventDefault();
    search.focus();
  });
})();
