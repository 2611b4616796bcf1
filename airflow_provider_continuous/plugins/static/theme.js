// Light or dark: in Airflow's frame as Airflow is, elsewhere as the system is.
(function () {
  function adopt() {
    try {
      const theme = parent.document.documentElement.classList;
      if (parent !== window && (theme.contains("dark") || theme.contains("light"))) {
        const scheme = theme.contains("dark") ? "dark" : "light";
        if (document.documentElement.style.colorScheme !== scheme) {
          document.documentElement.style.colorScheme = scheme;
          document.dispatchEvent(new Event("theme"));
        }
      }
    } catch (_) { /* another site's frame */ }
  }
  adopt();
  try {
    if (parent !== window)
      new MutationObserver(adopt).observe(parent.document.documentElement, { attributeFilter: ["class"] });
  } catch (_) { /* likewise */ }
})();
