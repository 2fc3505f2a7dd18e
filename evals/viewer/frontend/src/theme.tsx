import { useEffect, useState } from "preact/hooks";

const THEMES = ["auto", "light", "dark"];

export function Theme() {
  const [theme, setTheme] = useState(stored);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("raycade-theme", theme);
    } catch {
      // a browser that keeps nothing for this page
    }
  }, [theme]);
  return (
    <label class="theme">
      <span>theme</span>
      <select value={theme} onChange={(event) => setTheme(event.currentTarget.value)}>
        {THEMES.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

function stored(): string {
  try {
    return localStorage.getItem("raycade-theme") ?? "auto";
  } catch {
    return "auto";
  }
}
