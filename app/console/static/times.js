// Times in the reader's time zone, with UTC in the title; the clock of charts, too.

const today = () => new Date().toDateString();
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minutes = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const old = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

function shortTime(at) {
  if (at.toDateString() === today()) return clock.format(at);
  return at.getFullYear() === new Date().getFullYear() ? day.format(at) : old.format(at);
}

export function localTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]")) each.textContent = shortTime(new Date(each.dateTime));
  for (const each of root.querySelectorAll("text[data-at]")) {
    each.textContent = minutes.format(new Date(Number(each.dataset.at) * 1000));
  }
}
