// Live parts: the server sends the HTML of a part whenever it is different; it replaces the old one.

export function follow(replaced) {
  const pulse = document.querySelector("[data-pulse]");
  let source = null;

  function show(state) {
    pulse?.classList.toggle("on", state === "on");
    pulse?.classList.toggle("off", state === "off");
  }

  function start() {
    if (source || document.hidden) return;
    source = new EventSource(location.pathname + location.search);
    source.addEventListener("open", () => show("on"));
    source.addEventListener("error", () => {
      show("off");
      // The browser comes again by itself, except after an answer that is no stream.
      if (source?.readyState !== EventSource.CLOSED) return;
      source = null;
      setTimeout(start, 5000);
    });
    source.addEventListener("part", (event) => {
      const { id, html } = JSON.parse(event.data);
      const part = document.getElementById(id);
      if (part) replace(part, html, replaced);
    });
    // The key has ended, or its rights are others: the page says what to do.
    source.addEventListener("over", () => location.reload());
  }

  function stop() {
    source?.close();
    source = null;
    show("");
  }

  // A page that nobody sees costs the server nothing.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  addEventListener("pagehide", stop);
  start();
}

function replace(part, html, replaced) {
  // Whoever is in the middle of a choice keeps it: the part is replaced with the next change.
  const active = document.activeElement;
  if (part.contains(active) && active.matches("input, textarea, select")) return;
  if (!getSelection().isCollapsed && part.contains(getSelection().anchorNode)) return;
  const focused = part.contains(active) ? indexIn(part, active) : -1;
  const kept = [...part.querySelectorAll("details[data-keep]")].map((each) => [each.dataset.keep, each.open]);
  part.innerHTML = html;
  for (const [name, open] of kept) {
    const details = part.querySelector(`details[data-keep="${CSS.escape(name)}"]`);
    if (details) details.open = open;
  }
  if (focused >= 0) focusable(part)[focused]?.focus({ preventScroll: true });
  replaced(part);
}

const focusable = (part) => [...part.querySelectorAll("a, button, input, select, textarea, summary, [tabindex]")];
const indexIn = (part, element) => focusable(part).indexOf(element);
