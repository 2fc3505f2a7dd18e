import type { ComponentChildren } from "preact";
import { addressOf, visit } from "./address";

interface Given {
  to: URLSearchParams;
  id?: string;
  class?: string;
  label?: string;
  current?: boolean;
  replace?: boolean;
  children: ComponentChildren;
}

/** A link within the pages: with Ctrl, Shift or the middle button the browser opens it elsewhere. */
export function Link({ to, id, class: name, label, current = false, replace = false, children }: Given) {
  const clicked = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    visit(to, replace);
  };
  return (
    <a
      id={id}
      class={name}
      href={addressOf(to)}
      aria-label={label}
      aria-current={current ? "page" : undefined}
      onClick={clicked}
    >
      {children}
    </a>
  );
}
