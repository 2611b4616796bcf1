// Asks the server to do something to the query; asks the person first where it cannot be undone.
(function () {
  const where = document.getElementById("actions");
  if (!where) return;
  const done = document.getElementById("done");
  const sure = document.getElementById("sure");
  const PATIENCE_MS = 90_000; // the server answers earlier, even if the storage does not
  let asking = false;

  async function ask(action, body) {
    done.textContent = "Asking …";
    const answer = await fetch(`${where.dataset.actAt}${action}?at=${where.dataset.at}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Continuous-Action": "1" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE_MS),
    }).catch((error) => {
      if (!(error instanceof TypeError)) throw error;
      throw new Error("The server cannot be reached; look whether it was done before you ask again.");
    });
    if (answer.status === 401) throw new Error("You are logged out, and nothing was done: load the page again to log in.");
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(typeof told.detail === "string" ? told.detail : `the server answers ${answer.status}`);
    done.textContent = "";
    return told;
  }

  function confirmed(text, yes) {
    document.getElementById("sure-text").textContent = text;
    document.getElementById("sure-yes").textContent = yes;
    sure.returnValue = "no";
    sure.showModal();
    return new Promise((resolve) =>
      sure.addEventListener("close", () => resolve(sure.returnValue === "yes"), { once: true }));
  }

  async function act(action, body, text, dry, label) {
    if (asking) return;
    asking = true;
    done.classList.remove("error");
    try {
      if (dry) {
        const told = await ask(action, { ...body, dry_run: true });
        if (!(await confirmed(told.message, label))) return;
        // Of a rewind: refused if the query is not any more where the preview saw it.
        body = { ...body, dry_run: false, expected_epoch: told.report.from_epoch };
      } else if (text && !(await confirmed(text, label))) return;
      done.textContent = (await ask(action, body)).message;
      if (window.lookAgain) window.lookAgain();
    } catch (error) {
      done.classList.add("error");
      done.textContent = error.name === "TimeoutError"
        ? `The server has not answered for ${PATIENCE_MS / 1000} s; it may do it yet.` : error.message;
    } finally {
      asking = false;
    }
    done.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest("button[data-act]");
    if (!button) return;
    const { act: action, name, sure: text } = button.dataset;
    const run = document.getElementById("run");
    const body = name ? { name } : { run_id: run ? run.textContent : null };
    act(action, body, text || `Remove the pin ${name}? Its epoch is then pruned as any other.`, false,
      button.textContent.trim());
  });
  for (const form of where.querySelectorAll("form[data-act]"))
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const body = {};
      for (const field of form.querySelectorAll("input"))
        if (field.value !== "") body[field.name] = field.type === "number" ? Number(field.value) : field.value;
      const label = form.dataset.act === "prune" ? "Prune" : "Rewind";
      act(form.dataset.act, body, "", "dry" in form.dataset, label);
    });
})();
