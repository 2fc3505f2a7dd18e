// A report in one file: results of each suite, episodes to look at, prompts, costs and settings.

import { useEffect, useState } from "preact/hooks";
import { open } from "./archive/chunks";
import { EpisodeView, Fold, title } from "./episode";
import type {
  ReportCell as Cell,
  Report as Content,
  Episode,
  ReportFigure as Figure,
  ReportSection as Section,
  Shown,
  ReportTable as Table,
} from "./schema";
import { Parts } from "./step";
import { Text } from "./text";
import { Theme } from "./theme";

const EPISODES = "episodes-0";

/** What the file holds; null until it is unpacked. */
function useContent(): [Content | null, Episode[], string] {
  const [content, setContent] = useState<Content | null>(null);
  const [episodes, setEpisodes] = useState<Episode[]>([]);
  const [error, setError] = useState("");
  useEffect(() => {
    const both = Promise.all([open<Content>("report"), open<{ episodes: Shown[] }>(EPISODES)]);
    both
      .then(([report, chunk]) => {
        setEpisodes(chunk.head.episodes.map(listed));
        setContent(report.head);
        document.title = `${report.head.title} – raycade report`;
      })
      .catch((problem: Error) => setError(problem.message));
  }, []);
  return [content, episodes, error];
}

/** An episode of this file as one of a list, without a run. */
function listed(episode: Shown, place: number): Episode {
  const { seed: _, ...row } = episode.row;
  return {
    ...episode,
    listed: { ...row, id: place, run: "", attempts: [row.attempt] },
    place: { position: null, total: 0, before: null, after: null },
    same_game: [],
    folder: "",
    chunk: EPISODES,
  };
}

export function Report() {
  const [content, episodes, error] = useContent();
  if (error) return <p role="alert">{error}</p>;
  if (!content) return <p role="status">reading …</p>;
  return (
    <>
      <header class="top">
        <span class="home">raycade</span>
        <nav class="sections" aria-label="Sections">
          {content.sections.map((section) => (
            <a key={section.id} href={`#${section.id}`}>
              {section.title}
            </a>
          ))}
        </nav>
        <Theme />
      </header>
      <main class="report">
        <h1>
          Report: <Text value={content.title} />
        </h1>
        {content.status.map((line) => (
          <p key={line} class="notice" role="note">
            <Text value={line} />
          </p>
        ))}
        {content.sections.map((section) => (
          <SectionView key={section.id} section={section} episodes={episodes} />
        ))}
        <footer>
          Computed by raycade {content.version} from plan and ledger alone. Licenses are in the source of this page.
        </footer>
      </main>
    </>
  );
}

function SectionView({ section, episodes }: { section: Section; episodes: Episode[] }) {
  return (
    <section id={section.id} aria-labelledby={`${section.id}-title`}>
      <h2 id={`${section.id}-title`}>{section.title}</h2>
      {section.lines.map((line) => (
        <p key={line}>
          <Text value={line} />
        </p>
      ))}
      {section.tables.map((table) => (
        <TableView key={table.title} table={table} />
      ))}
      {section.figures.length > 0 && (
        <div class="plots">
          {section.figures.map((figure) => (
            <FigureView key={figure.title} figure={figure} />
          ))}
        </div>
      )}
      {section.more.length > 0 && (
        <Fold title={`${section.more.length} more tables`}>
          {section.more.map((table) => (
            <TableView key={table.title} table={table} />
          ))}
        </Fold>
      )}
      {section.episodes.map(({ at, ending }) => (
        <EpisodeFold key={at} episode={episodes[at]} ending={ending} />
      ))}
      {section.prompts.map((prompt) => (
        <Fold key={prompt.at} title={prompt.title}>
          {episodes[prompt.at].steps[0].shown.map((message, order) => (
            <div key={order} class={`said asked ${message.role}`}>
              <h3>{message.role}</h3>
              <Parts message={message} episode={episodes[prompt.at]} />
            </div>
          ))}
        </Fold>
      ))}
      {section.texts.map(({ title, text }) => (
        <Fold key={title} title={title}>
          <div class="words" tabIndex={0} role="region" aria-label={title}>
            <Text value={text} />
          </div>
        </Fold>
      ))}
    </section>
  );
}

/** An episode that is drawn once it is opened. */
function EpisodeFold({ episode, ending }: { episode: Episode; ending: string }) {
  const [isOpen, setOpen] = useState(false);
  const [step, setStep] = useState(1);
  return (
    <details class="fold" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class={`ending ${ending.replaceAll(" ", "-")}`}>{ending}</span> {title(episode.listed)} · {episode.row.player}
      </summary>
      {isOpen && <EpisodeView episode={episode} step={step} toStep={setStep} whole={false} />}
    </details>
  );
}

function TableView({ table }: { table: Table }) {
  return (
    <>
      <div class="wide" tabIndex={0} role="region" aria-label={`Table: ${table.title}`}>
        <table>
          <caption>
            <Text value={table.title} />
            {table.shared.length > 0 && (
              <span class="shared">
                in every row: <Text value={table.shared.join(", ")} />
              </span>
            )}
          </caption>
          <thead>
            <tr>
              {table.columns.map((column, place) => (
                <th key={place} scope="col" class={column.number ? "number" : ""}>
                  {column.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {table.rows.map((row, number) => (
              <tr key={number}>
                {row.map((cell, place) => (
                  <CellView key={place} cell={cell} names={place === 0 && !cell.number} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {table.notes.length > 0 && (
        <details class="notes">
          <summary>What the columns of “{table.title}” mean</summary>
          {table.notes.map((note) => (
            <p key={note}>{note}</p>
          ))}
        </details>
      )}
    </>
  );
}

function CellView({ cell, names }: { cell: Cell; names: boolean }) {
  const content = (
    <>
      {cell.best ? (
        <b>
          <Text value={cell.text} />
        </b>
      ) : (
        <Text value={cell.text} />
      )}
      {cell.interval && <span class="interval"> {cell.interval}</span>}
    </>
  );
  if (names) return <th scope="row">{content}</th>;
  return <td class={cell.number ? "number" : ""}>{content}</td>;
}

function FigureView({ figure }: { figure: Figure }) {
  return (
    <figure>
      <div class="wide" tabIndex={0} role="region" aria-label={`Figure: ${figure.title}`}>
        <img class="plot light" src={figure.source} alt={figure.alt} width={figure.width} height={figure.height} />
        <img class="plot dark" src={figure.dark} alt={figure.alt} width={figure.width} height={figure.height} />
      </div>
      <figcaption>{figure.caption}</figcaption>
    </figure>
  );
}
