// The server's responses: the fields that the page uses.
export interface Message {
  id: number;
  parent: number;
  role: "user" | "assistant";
  content: string;
  meta: Meta;
  rating: number;
  created: number;
  key?: string; // of an answer generated in this session: keeps its element when the answer is complete
}

export interface Meta {
  model?: string;
  finish?: Finish;
  tokens?: TokenMark[];
  seconds?: number;
  count?: number; // generated tokens
  context?: number; // tokens of the prompt and the answer
  error?: string; // what ended the answer
  edited?: boolean;
  tool_calls?: ToolCall[];
  files?: FilePart[]; // of a user's message, in its content
  images?: AttachedImage[]; // of a user's message
  sources?: Source[]; // of an answer from a collection
  grounding?: Grounding;
}

// A passage in the model's prompt.
export interface Source {
  id: string;
  document: string;
  title: string;
  begin: number; // bytes in the document
  end: number;
  text: string;
}

// Which sentences of an answer its sources support.
export interface Grounding {
  groundedness: number;
  sentences: { text: string; grounded: boolean; support: number; citations: { source: number; quote: string }[] }[];
}

// "stopped": by the user; "dropped": the connection was lost; "error": the server failed.
export type Finish = "" | "stop" | "length" | "tool_calls" | "stopped" | "dropped" | "error";

export interface AttachedFile {
  name: string;
  text: string;
  image?: string; // a data URL; the text is empty then
}

export interface AttachedImage {
  name: string;
  url: string; // a data URL
}

// Where a file's text is in the content of a message; the message's own text follows the last one.
export interface FilePart {
  name: string;
  start: number;
  end: number;
}

export interface ToolCall {
  name: string;
  arguments: string;
}

// [text, log-probability, alternatives]
export type TokenMark = [string, number, [string, number][]];

export interface ConversationSummary {
  id: number;
  title: string;
  updated: number;
  messages: number;
}

export interface Conversation {
  id: number;
  title: string;
  system: string;
  settings: Partial<Sampling>;
  leaf: number;
  messages: Message[];
}

export interface Sampling {
  temperature: number;
  top_p: number;
  top_k: number;
  min_p: number;
  repetition_penalty: number;
  max_tokens: number;
  seed: number; // -1: a new one each time
  n: number;
}

export interface Model {
  id: string;
  loaded: boolean;
  generates: boolean;
  collection?: boolean; // answers from an index
  max_model_len?: number; // once it is loaded
}

export interface LookToken {
  id: number;
  text: string;
  special: boolean;
}

export interface Distribution {
  at: number;
  vocab: number;
  entropy: number;
  ids: number[];
  logits: number[];
  texts: string[];
  rest: [number, number][]; // the other tokens as a histogram: [mean logit, count]
}

export interface Attention {
  of: string;
  layers: number[];
  heads: number;
  rows: number;
  keys: number;
  scale: number;
  data: string[];
}

export interface Matrix {
  rows: number;
  columns: number;
  low: number;
  high: number;
  data: string;
}

export type Positions =
  | { kind: "learned" | "sinusoidal"; positions: number; width: number; matrix: Matrix }
  | { kind: "rotary"; theta: number; head_dim: number; frequencies: number[] }
  | { kind: "alibi"; slopes: number[] }
  | { kind: "t5"; first: number; matrix: Matrix };

export interface Routing {
  experts: number;
  per_token: number;
  layers: { choices: number[]; probabilities: Matrix }[];
}

export interface Look {
  model: {
    name: string;
    architecture: string;
    layers: number;
    encoder_layers?: number;
    heads: number;
    kv_heads: number;
    width: number;
    vocab: number;
    experts: number;
    kinds: string[];
  };
  tokens: LookToken[];
  target?: LookToken[];
  next?: Distribution[];
  probabilities?: ({ logprob: number; rank: number; top: { text: string; logprob: number }[] } | null)[];
  attention?: Attention;
  positions?: Positions[];
  routing?: Routing;
}

export interface RunPiece {
  file: number;
  restarted: boolean;
  offset: number;
  more: boolean;
  changed: number;
  total?: number; // steps of the run
  steps: [number, number | null, number | null, number | null, number | null, number | null][];
  validations: { step: number; figures: Record<string, number> }[];
  samples: { step: number; text: string }[];
}

export interface EvaluationRow {
  task: string;
  metric: string;
  filter: string;
  value: number | null;
  stderr: number | null;
  higher_is_better: boolean;
  shots: number | null;
  documents: number | null;
}
export interface EvaluationResults {
  name: string;
  model: string | null;
  rows: EvaluationRow[];
}

// The next item of a study; without `item` all are rated.
export interface StudyStep {
  done: number;
  total: number;
  item?: number;
  kind?: "pair" | "rank" | "scale";
  prompt?: string | { role: string; content: string }[];
  answers?: string[];
  scales?: string[];
}
export interface StudyReport {
  raters: number;
  ratings: number;
  agreement: { kappa: number | null; scale_kappa: number | null };
  systems: Record<string, Record<string, number>>;
  scales?: string[];
}

export interface EngineView {
  seconds: number;
  prompt_tokens: number;
  generated_tokens: number;
  requests: { in_flight: number; max_in_flight: number };
  engine: {
    tasks: number;
    steps: number;
    rows: number;
    reused: number;
    preempted: number;
    pages: number;
    max_pages: number;
    prefix_pages: number;
    page_tokens: number;
    sequences: [tokens: number, cached: number, pages: number][];
  };
  memory: { resident: number; peak: number };
  cost?: { money: number; currency: string; joules: number } | null; // with a price table
}
