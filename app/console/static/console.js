// Small helpers over pages that work without them: live parts, the keyboard, times, copies.
import { follow } from "./live.js";
import { keyboard } from "./keyboard.js";
import { localTimes } from "./times.js";

export function copies(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("[data-copy]")) button.hidden = false;
}

function copying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

// The keyboard leads to what scrolls sideways, and scrolls it.
function scrollers() {
  for (const each of document.querySelectorAll(".part")) {
    each.toggleAttribute("tabindex", each.scrollWidth > each.clientWidth);
    if (each.hasAttribute("tabindex")) each.tabIndex = 0;
  }
}

function forgetFlash() {
  const here = new URL(location.href);
  if (!here.searchParams.has("done")) return;
  here.searchParams.delete("done");
  here.searchParams.delete("undo");
  history.replaceState(null, "", here);
}

// The answer to a form that is not done yet has the rest as a form, which goes on by itself.
function continuation() {
  document.querySelector("form[data-continue]")?.requestSubmit();
}

// The process does not know the prefix of paths that a proxy adds: the commands get it here.
function addresses() {
  const { root, api } = document.body.dataset;
  const here = new URL(root, location.href).href.replace(/\/console\/$/, "");
  // Nothing that has a meaning for a shell gets into a command.
  if (!/^https?:\/\/[\w.:-]+(\/[\w.~-]+)*$/.test(here)) return;
  for (const code of document.querySelectorAll(".copied code")) {
    if (/(^|\| )curl /.test(code.textContent)) code.textContent = code.textContent.replace(api, here);
  }
}

addresses();
forgetFlash();
copying();
continuation();
copies(document);
localTimes(document);
keyboard();
scrollers();
addEventListener("resize", scrollers);
if ("live" in document.body.dataset) follow((part) => { copies(part); localTimes(part); scrollers(); });
