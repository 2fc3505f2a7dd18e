import { useEffect, useState } from "preact/hooks";

const THEMES = ["auto", "light", "dark"];

export function Theme() {
  const [theme, setTheme] = useState(() => localStorage.getItem("raycade-theme") ?? "auto");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("raycade-theme", theme);
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
