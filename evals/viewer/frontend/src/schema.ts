// Made by `python -m evals.viewer.schema`; a test compares it. All of it is data: texts are never markup.

export const VERSION = 6;

export type Facts = Record<string, unknown>;
export type Values = Record<string, Record<string, number>>;

/** What the ledger says of an episode; see ``evals.ledger.columns.EpisodeRow``. */
export interface Counted {
  episode_id: string;
  suite: string;
  task: string;
  level: string;
  mode: string;
  index: number;
  repeat: number;
  player: string;
  status: string;
  error: string;
  error_kind: string;
  success: boolean | null;
  score: number | null;
  steps: number | null;
  budget: number;
  prompt_tokens: number;
  completion_tokens: number;
  reasoning_tokens: number;
  cached_tokens: number;
  seconds: number;
  cost: number;
  cut_off: number;
  attempt: number;
}

/** An episode in the list; ``other`` is the same game of those it is compared with. */
export interface Row {
  episode_id: string;
  suite: string;
  task: string;
  level: string;
  mode: string;
  index: number;
  repeat: number;
  player: string;
  status: string;
  error: string;
  error_kind: string;
  success: boolean | null;
  score: number | null;
  steps: number | null;
  budget: number;
  prompt_tokens: number;
  completion_tokens: number;
  reasoning_tokens: number;
  cached_tokens: number;
  seconds: number;
  cost: number;
  cut_off: number;
  attempt: number;
  id: number;
  run: string;
  seed?: number;
  other?: Partner | null;
  tags?: string[];
}

/** An episode's row of the ledger; a number in JavaScript has fewer digits than a seed. */
export interface StoredRow {
  episode_id: string;
  suite: string;
  task: string;
  level: string;
  mode: string;
  index: number;
  repeat: number;
  player: string;
  status: string;
  error: string;
  error_kind: string;
  success: boolean | null;
  score: number | null;
  steps: number | null;
  budget: number;
  prompt_tokens: number;
  completion_tokens: number;
  reasoning_tokens: number;
  cached_tokens: number;
  seconds: number;
  cost: number;
  cut_off: number;
  attempt: number;
  seed: string;
  session: string;
}

/** The same game of another run or player. */
export interface Partner {
  run: string;
  episode_id: string;
  status: string;
  success: boolean | null;
  error: string;
}

/** How far a search for text has come, in files. */
export interface Progress {
  searched: number;
  of: number;
  running: boolean;
}

/** Some rows of the list. */
export interface Page {
  total: number;
  from: number;
  rows: Row[];
  search: Progress | null;
  version: number;
}

/** A run and how far it has come, in episodes. */
export interface RunStatus {
  name: string;
  path: string;
  planned: number;
  done: number;
  failed: number;
  waiting: number;
  players: string[];
  damage: string[];
  stopping: string[];
  live: boolean;
}

/** What runs there are; ``version`` changes whenever any other answer may; the next look is in ``again`` seconds. */
export interface State {
  version: number;
  again: number;
  loaded: boolean;
  trouble: string;
  runs: RunStatus[];
}

/** Episodes of one player in a cell. */
export interface Cell {
  run: string;
  suite: string;
  task: string;
  level: string;
  mode: string;
  player: string;
  played: number;
  won: number;
  failed: number;
  planned: number | null;
}

/** Failures with one cause. */
export interface Cause {
  cause: string;
  error_kind: string;
  count: number;
  example: string;
  players: string[];
  episodes: Row[];
}

/** An episode that is being played: ``turns`` so far, the ``first`` that the log has, the end of the last reply, times. */
export interface LiveEpisode {
  run: string;
  episode_id: string;
  suite: string;
  task: string;
  level: string;
  mode: string;
  index: number;
  repeat: number;
  player: string;
  budget: number;
  attempt: number;
  began: number;
  first: number;
  turns: number;
  last_at: number | null;
  last: string;
  ended: boolean;
}

/** How far a cell is. */
export interface LiveCell {
  suite: string;
  task: string;
  level: string;
  mode: string;
  player: string;
  planned: number;
  done: number;
  failed: number;
  won: number;
}

/** An unfinished run; ``cost`` is that of its ledger; ``numbers`` are its driver's, as of ``noted``. */
export interface LiveRun {
  run: string;
  writer: string;
  cost: number;
  noted: number | null;
  numbers: Record<string, number>;
  trouble: string;
  running: LiveEpisode[];
  cells: LiveCell[];
}

/** A picture that is asked for by its key. */
export interface LivePicture {
  key: string;
  width: number;
  height: number;
  error: string;
}

/** A turn with its reply, texts shortened; ``bare`` where they were left out. */
export interface LiveTurn {
  turn: number;
  at: number;
  prompt: string;
  pictures: LivePicture[];
  reply: string;
  reasoning: string;
  action: string | null;
  rule: string;
  finish: string;
  prompt_tokens: number;
  completion_tokens: number;
  seconds: number;
  cost: number;
  bare: boolean;
}

/** Turns of a running episode, those that were asked for. */
export interface LiveTurns {
  episode: LiveEpisode;
  turns: LiveTurn[];
}

/** A mean, or a difference, with its interval at 95 %, whose ends are null where it has none; ``n`` observations. */
export interface Interval {
  mean: number;
  low: number | null;
  high: number | null;
  n: number;
}

/** First minus second on their shared games; ``holm`` is p corrected for the rows beside it. */
export interface Effect {
  cell: string[];
  first: number;
  second: number;
  difference: Interval;
  p: number;
  holm: number;
  games: number;
}

/** One player's games on a board; ``difference`` to the baseline. */
export interface ResultCell {
  run: string;
  player: string;
  score: Interval | null;
  standing: string;
  notes: string[];
  planned: number;
  played: number;
  failed: number;
  replies: number;
  unread: number;
  cut: number;
  cost: number;
  seconds: number | null;
  difference?: Effect;
}

/** What a score may be held against. */
export interface Tick {
  kind: "chance" | "shortcut" | "paper" | "people";
  name: string;
  value: number;
}

/** Equal games of a suite, with the range of the first measure. */
export interface ResultBoard {
  suite: string;
  title: string;
  about: string;
  measure: string;
  share: boolean;
  low: number;
  high: number;
  ticks: Tick[];
}

/** A model, or what a built-in player stands for, with a cell for each board. */
export interface ResultRow {
  name: string;
  reference: boolean;
  cells: (ResultCell | null)[];
}

/** A setting that differs, with its value in each row of a model. */
export interface Setting {
  name: string;
  values: Record<string, string>;
}

/** Runs by suites; ``trouble`` says which could not be read. */
export interface Results {
  sentence: string;
  baseline: string;
  boards: ResultBoard[];
  rows: ResultRow[];
  settings: Setting[];
  trouble: string[];
}

/** A measure of two rows; ``detects`` is the true difference that so many games show in 80 % of all cases. */
export interface ComparedMeasure {
  measure: string;
  share: boolean;
  better: string;
  overall: Effect;
  detects: number | null;
  dimensions: string[];
  tasks: Effect[];
  cells: Effect[];
}

/** Games of a cell by who won them. */
export interface Outcomes {
  task: string;
  level: string;
  mode: string;
  both: number;
  first: number;
  second: number;
  neither: number;
}

/** One side of a comparison, as the ledger names it. */
export interface Side {
  run: string;
  player: string;
}

/** Two rows in one suite. */
export interface ComparedSuite {
  suite: string;
  title: string;
  about: string;
  first: Side;
  second: Side;
  measures: ComparedMeasure[];
  outcomes: Outcomes[];
}

/** Two rows of the results on identical games, with the settings that tell them apart. */
export interface Comparison {
  first: string;
  second: string;
  sentence: string;
  suites: ComparedSuite[];
  settings: Setting[];
}

/** Success of a player, or of chance or perfect play (``reference``), over levels, the easiest first. */
export interface DifficultyCurve {
  run: string;
  title: string;
  task: string;
  player: string;
  mode: string;
  reference: boolean;
  levels: string[];
  success: (Interval | null)[];
}

/** The curves of all runs shown. */
export interface Difficulty {
  curves: DifficultyCurve[];
}

/** One run of a study, by the values of the settings in which its runs differ; ``played`` finished games. */
export interface StudyCondition {
  run: string;
  player: string;
  levels: Record<string, string>;
  played: number;
}

/** What a change does on the same games: ``first`` with it, ``second`` without. */
export interface StudyEffect {
  change: string;
  against: string;
  first: number;
  second: number;
  difference: Interval;
  p: number;
  holm: number;
  games: number;
}

/** A source of variance with its share. */
export interface StudySource {
  source: string;
  share: Interval;
}

/** One measure in all conditions; ``together``: how much more two changes do than the sum of each alone. */
export interface StudyMeasure {
  measure: string;
  share: boolean;
  effects: StudyEffect[];
  together: StudyEffect[];
  variance: StudySource[];
}

/** Share of the lost games, and the tag of the games behind it with their number. */
export interface StudyCause {
  cause: string;
  share: Interval | null;
  tag: string;
  games: number;
}

/** Games of one task and level that were played from pictures and in words. */
export interface StudyCell {
  task: string;
  level: string;
  games: number;
  lost: number;
  causes: StudyCause[];
}

/** Why games were lost in a condition with pictures that has a twin in words. */
export interface StudyLosses {
  run: string;
  text_run: string;
  player: string;
  about: string;
  cells: StudyCell[];
}

/** What the runs shown tell as a study, the first one as its baseline; ``trouble`` says why they are none. */
export interface Study {
  trouble: string;
  conditions: StudyCondition[];
  measures: StudyMeasure[];
  losses: StudyLosses[];
}

/** A text within a message. */
export interface TextPart {
  text: string;
}

/** A picture within a message, by its key. */
export interface PicturePart {
  picture: string;
}

/** What the system, the user or the assistant said. */
export interface Message {
  role: string;
  parts: (TextPart | PicturePart)[];
}

/** A turn of an episode; see ``evals.view.StepView`` and ``evals.ledger.columns.TurnRow``. */
export interface Step {
  shown: Message[];
  kept: number;
  reply: string;
  reasoning: string;
  decoded: string | null;
  rule: string;
  facts: Record<string, unknown>;
  best: string | null;
  regret: number | null;
  lost: boolean;
  after: string | null;
  remaining: string[] | null;
  probabilities: Record<string, number | null>;
  options: string[];
  finish: string;
  prompt_tokens: number;
  completion_tokens: number;
  reasoning_tokens: number;
  cached_tokens: number;
  seconds: number;
  cost: number;
  label_mass: number | null;
  exact: boolean | null;
}

/** What an outcome of a test rules out; see ``evals.view.Rule``. */
export interface Rule {
  test: string;
  outcome: string;
  rules_out: string[];
  used: number | null;
}

/** A question of a chain; see ``evals.view.Question``. */
export interface Question {
  name: string;
  stage: string;
  answer: string | null;
  key: string;
  parents: string[];
  weights: number[];
  turn: number;
  counts: boolean;
  score: number | null;
}

/** Size of a picture in pixels, or why it cannot be rendered. */
export interface Picture {
  width: number;
  height: number;
  error: string;
}

/** Where an episode stands in the list. */
export interface Place {
  position: number | null;
  total: number;
  before: Row | null;
  after: Row | null;
}

/** An episode's row, with the attempts that there are. */
export interface Listed {
  episode_id: string;
  suite: string;
  task: string;
  level: string;
  mode: string;
  index: number;
  repeat: number;
  player: string;
  status: string;
  error: string;
  error_kind: string;
  success: boolean | null;
  score: number | null;
  steps: number | null;
  budget: number;
  prompt_tokens: number;
  completion_tokens: number;
  reasoning_tokens: number;
  cached_tokens: number;
  seconds: number;
  cost: number;
  cut_off: number;
  attempt: number;
  id: number;
  run: string;
  seed?: number;
  other?: Partner | null;
  tags?: string[];
  attempts: number[];
}

/** An episode as exports and reports store it. */
export interface Shown {
  steps: Step[];
  facts: Record<string, unknown>;
  regret_unit: string;
  candidates: string[];
  book: Rule[];
  graph: Question[];
  row: StoredRow;
  columns: Record<string, unknown>;
  notice: string;
  pictures: Record<string, Picture>;
}

/** An episode as the page shows it; ``chunk`` is that of an export which has the episode and its pictures. */
export interface Episode {
  steps: Step[];
  facts: Record<string, unknown>;
  regret_unit: string;
  candidates: string[];
  book: Rule[];
  graph: Question[];
  row: StoredRow;
  columns: Record<string, unknown>;
  notice: string;
  pictures: Record<string, Picture>;
  listed: Listed;
  place: Place;
  same_game: Row[];
  folder: string;
  chunk?: string;
}

/** A note on an episode; see ``evals.notes.note.Note``. */
export interface Note {
  id: string;
  episode: string;
  tag: string;
  text: string;
  author: string;
  time: string;
}

/** An episode's notes, the tags that there are, why none can be written (or nothing), and who would write one. */
export interface NotesAnswer {
  notes: Note[];
  tags: string[];
  refusal: string;
  author: string;
}

/** A column of the list as numbers; see ``evals.archive.columns.pack``. */
export interface PackedColumn {
  name: string;
  kind: "ids" | "values" | "numbers";
  type: "uint8" | "uint16" | "uint32" | "float32";
  values?: unknown[];
}

/** What an export holds beside list and episodes. */
export interface Answers {
  state: State;
  planned: Record<string, number>;
}

/** The head of an export's list: ``size`` episodes to a chunk. */
export interface Columns {
  version: number;
  rows: number;
  size: number;
  columns: PackedColumn[];
  answers: Answers;
}

/** An export's results by baseline, and comparisons by the names of both rows. */
export interface Stored {
  results: Record<string, Results>;
  compare: Record<string, Record<string, Comparison>>;
}

/** A cell of a table. */
export interface ReportCell {
  text: string;
  interval: string;
  number: boolean;
  best: boolean;
}

/** A column of a table. */
export interface ReportColumn {
  name: string;
  number: boolean;
}

/** A table; ``shared`` is what holds in each of its rows. */
export interface ReportTable {
  title: string;
  shared: string[];
  columns: ReportColumn[];
  rows: ReportCell[][];
  notes: string[];
}

/** A figure; ``source`` is a data address. */
export interface ReportFigure {
  title: string;
  source: string;
  width: number;
  height: number;
  alt: string;
  dark: string;
  caption: string;
}

/** An episode by its place in the chunk. */
export interface ReportEpisode {
  at: number;
  ending: string;
}

/** A prompt, stored as an episode of one step. */
export interface ReportPrompt {
  at: number;
  title: string;
}

/** A long text. */
export interface ReportText {
  title: string;
  text: string;
}

/** A part of a report. */
export interface ReportSection {
  id: string;
  title: string;
  lines: string[];
  tables: ReportTable[];
  figures: ReportFigure[];
  more: ReportTable[];
  episodes: ReportEpisode[];
  prompts: ReportPrompt[];
  texts: ReportText[];
}

/** A report in one file; ``version`` is raycade's. */
export interface Report {
  title: string;
  status: string[];
  sections: ReportSection[];
  version: string;
}
