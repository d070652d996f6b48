// Runs before the first paint, so that a chosen theme does not flash in.
try {
  const theme = localStorage.getItem("kai.theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* storage may be forbidden: the system's theme then */ }
