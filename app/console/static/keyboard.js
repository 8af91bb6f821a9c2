// The keyboard: "/" leads to the search, "g" and a letter to a section, Escape out of a field.

export function keyboard() {
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "/") {
      const find = document.getElementById("find");
      if (!find) return;
      event.preventDefault();
      find.focus();
      find.select();
    } else if (event.key === "g") {
      going = Date.now();
    } else if (Date.now() - going < 1500) {
      going = 0;
      document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
    }
  });
}
