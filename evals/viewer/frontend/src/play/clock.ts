// How long a question has been in sight, and how long its page was hidden; kept over a reload of the page.

const STORED = "raycade-clock";

export class Clock {
  private visible = 0;
  private hidden = 0;
  private since = performance.now();
  private wasHidden = document.hidden;

  constructor(private readonly key: string) {
    try {
      const stored = JSON.parse(sessionStorage.getItem(STORED) ?? "null");
      if (stored?.key === key) [this.visible, this.hidden] = [Number(stored.visible), Number(stored.hidden)];
    } catch {
      // a browser that keeps nothing for this page
    }
    document.addEventListener("visibilitychange", this.note);
    addEventListener("pagehide", this.note);
  }

  private readonly note = (): void => {
    this.add();
    try {
      sessionStorage.setItem(STORED, JSON.stringify({ key: this.key, visible: this.visible, hidden: this.hidden }));
    } catch {
      // as above
    }
  };

  private add(): void {
    const now = performance.now();
    const passed = (now - this.since) / 1000;
    if (this.wasHidden) this.hidden += passed;
    else this.visible += passed;
    this.since = now;
    this.wasHidden = document.hidden;
  }

  /** Seconds so far. */
  read(): { visible: number; hidden: number } {
    this.add();
    return { visible: thousandths(this.visible), hidden: thousandths(this.hidden) };
  }

  stop(): void {
    document.removeEventListener("visibilitychange", this.note);
    removeEventListener("pagehide", this.note);
  }
}

function thousandths(seconds: number): number {
  return Math.round(1000 * seconds) / 1000;
}
