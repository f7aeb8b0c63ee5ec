// The text whose intermediate results are shown.
export interface Subject {
  model: string;
  text: string;
  chat: boolean;
  completion: string;
}

// The text as a request to the server.
export function lookRequest(s: Subject): object {
  return {
    model: s.model,
    ...(s.chat ? { messages: [{ role: "user", content: s.text }] } : { prompt: s.text, parse_special: true }),
    ...(s.completion ? { completion: s.completion } : {}),
  };
}
