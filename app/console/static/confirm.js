// Asks before a button acts that has a question. Pages show buttons after this script has run.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  const question = button?.dataset.confirm;
  if (!question || button.dataset.confirmed) return;
  event.preventDefault();
  const dialog = document.getElementById("confirm");
  if (!dialog) return; // The end of the page, which has the dialog, has not come yet.
  document.getElementById("confirm-text").textContent = question;
  document.getElementById("confirm-yes").textContent = button.textContent;
  dialog.returnValue = "no";
  dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "yes") return;
    button.dataset.confirmed = "yes";
    event.target.requestSubmit(button);
  }, { once: true });
  dialog.showModal();
});
