// Looks again: what is marked data-live is replaced by what the server says now. What somebody
// types, has opened or has focused stays as it is.
(function () {
  const everyMs = Number(document.documentElement.dataset.refresh) * 1000;
  const note = document.getElementById("looked");
  const live = note ? note.innerHTML : "";
  const PATIENCE_MS = Math.max(4 * everyMs, 5_000);
  const KEPT = "a, button, [tabindex]", SCROLLED = "[tabindex], .steps, .error";
  let looking = false, lookedAt = Date.now();

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
      const place = focused && [...old.querySelectorAll(KEPT)].indexOf(focused);
      const scrolled = [...old.querySelectorAll(SCROLLED)].map((each) =>
        [each.scrollTop, each.scrollLeft, each.scrollHeight - each.clientHeight - each.scrollTop < 4]);
      old.className = now.className;
      old.innerHTML = now.innerHTML;
      if (focused) {
        const again = old.querySelectorAll(KEPT)[place];
        if (again) again.focus({ preventScroll: true });
      }
      [...old.querySelectorAll(SCROLLED)].forEach((each, index) => {
        if (!scrolled[index]) return toItsEnd(each);
        const [top, left, atEnd] = scrolled[index];
        each.scrollTo(left, top);
        if (atEnd) toItsEnd(each);
      });
    }
    document.dispatchEvent(new Event("looked"));
  }

  // Of a log the newest lines are looked at, unless somebody has turned back.
  function toItsEnd(element) {
    if (element.classList.contains("log")) element.scrollTop = element.scrollHeight;
  }

  // Browsers word it, each in its own way, as if the page were broken.
  function inWords(error) {
    throw error instanceof TypeError ? new Error("the server cannot be reached") : error;
  }

  // The page of an error says what is wrong, and what to do.
  async function refusal(answer) {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const told = page.querySelector("#refused p:not(.big)");
    return new Error(told ? told.textContent : `the server answers ${answer.status}`);
  }

  async function look() {
    if (looking) return;
    looking = true;
    try {
      const answer = await fetch(location.href, {
        cache: "no-store", redirect: "manual", headers: { Accept: "text/html" },
        signal: AbortSignal.timeout(PATIENCE_MS),
      }).catch(inWords);
      if (answer.type === "opaqueredirect") return tell("You are logged out.", location.href, "Log in again");
      if (!answer.ok) throw await refusal(answer);
      replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
      lookedAt = Date.now();
      tell("");
    } catch (error) {
      const since = new Date(lookedAt).toISOString().slice(0, 19).replace("T", " ");
      const why = error.name === "TimeoutError" ? `the server has not answered for ${PATIENCE_MS / 1000} s` : error.message;
      tell(`Not up to date since ${since} UTC: ${why}`);
    } finally {
      looking = false;
    }
  }

  window.lookAgain = look;
  document.querySelectorAll(".log").forEach(toItsEnd);
  if (everyMs) {
    setInterval(() => document.hidden || look(), everyMs);
    document.addEventListener("visibilitychange", () => document.hidden || look());
  }

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
