// Looks again: what is marked data-live is replaced by what the server says now. What somebody
// types, has opened or has focused stays as it is.
(function () {
  const everyMs = Number(document.documentElement.dataset.refresh) * 1000;
  const note = document.getElementById("looked");
  const live = note ? note.innerHTML : "";
  let looking = false;

  function tell(text, href, label) {
    if (!note) return;
    note.classList.toggle("stale", Boolean(text));
    if (!text) { if (note.innerHTML !== live) note.innerHTML = live; return; }
    note.textContent = text;
    if (href) {
      const link = document.createElement("a");
      link.href = href;
      link.textContent = label;
      note.append(" ", link);
    }
  }

  function replace(fresh) {
    for (const old of document.querySelectorAll("[data-live]")) {
      const now = fresh.getElementById(old.id);
      if (!now || now.innerHTML === old.innerHTML) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement : null;
      const place = focused && [...old.querySelectorAll("a, button")].indexOf(focused);
      old.className = now.className;
      old.innerHTML = now.innerHTML;
      if (focused) {
        const again = old.querySelectorAll("a, button")[place];
        if (again) again.focus({ preventScroll: true });
      }
    }
    document.dispatchEvent(new Event("looked"));
  }

  async function look() {
    if (looking) return;
    looking = true;
    try {
      const answer = await fetch(location.href, {
        cache: "no-store", redirect: "manual", headers: { Accept: "text/html" },
      });
      if (answer.type === "opaqueredirect") return tell("You are logged out.", location.href, "Log in again");
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
      tell("");
    } catch (error) {
      tell(`Not up to date: ${error.message}`);
    } finally {
      looking = false;
    }
  }

  window.lookAgain = look;
  if (everyMs) setInterval(() => document.hidden || look(), everyMs);

  // Airflow's frame is a sandbox: it opens no windows, and leads nowhere else. So Airflow's own
  // document follows links that lead out of it.
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[data-outside]");
    if (!link || parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
    let outer;
    try { outer = parent.document.createElement("a"); } catch (_) { return; }
    event.preventDefault();
    outer.href = link.href;
    if ("new" in link.dataset) { outer.target = "_blank"; outer.rel = "noopener noreferrer"; }
    outer.click();
  });

  const form = document.querySelector("form.filters");
  if (form) for (const select of form.querySelectorAll("select"))
    select.addEventListener("change", () => form.requestSubmit());
  if (form) form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
  });
})();
