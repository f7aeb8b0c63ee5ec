// Look inside: a text, and what the model computes for it.
import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../api";
import { refreshModels } from "../models";
import { saveSetting, loadSetting } from "../state";
import { words } from "../strings";
import type { Look, Model } from "../types";
import { ErrorMessage } from "../ui/controls";
import { AttentionCard } from "./attention";
import { NextCard } from "./next";
import { PositionsCard } from "./positions";
import { RoutingCard } from "./routing";
import { lookRequest, type Subject } from "./subject";
import { TokensCard } from "./tokens";

export function LookPage({ model }: { model?: Model }) {
  const [text, setText] = useState<string>(loadSetting("look-text", words.look.sample));
  const [chat, setChat] = useState(false);
  const [completion, setCompletion] = useState("");
  const [result, setResult] = useState<{ look: Look; subject: Subject } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [tries, setTries] = useState(0);
  const inFlight = useRef<AbortController | null>(null);
  useEffect(() => setCompletion(""), [model?.id, chat]);
  useEffect(() => {
    if (!model) return;
    saveSetting("look-text", text.slice(0, 4000));
    const subject = { model: model.id, text, chat, completion };
    const timer = setTimeout(async () => {
      inFlight.current?.abort();
      const request = (inFlight.current = new AbortController());
      setBusy(true);
      try {
        const what = ["tokens", "next", "probabilities", "positions", "routing"];
        const look = await post<Look>("/makar/look", { ...lookRequest(subject), what, top: 2048 }, request.signal);
        setResult({ look, subject });
        if (!model.loaded) void refreshModels(); // it is loaded now
        setError(null);
      } catch (e) {
        if (request.signal.aborted) return;
        // Results of an earlier text must not stay under a text that was refused.
        setResult(null);
        setError(e);
      } finally {
        if (inFlight.current === request) setBusy(false);
      }
    }, result ? 250 : 0);
    return () => clearTimeout(timer);
  }, [model?.id, text, chat, completion, tries]);
  const look = result?.look;
  const decoder = look?.model.kinds.includes("decoder");
  // Where a token is appended: the text itself, or its continuation.
  const hasContinuation = chat || look?.target;
  const rows = look?.target ?? look?.tokens;
  return (
    <div class="sheet look">
      <h1>{words.look.title}</h1>
      <p class="lead">{words.look.lead}</p>
      <section class="card">
        <header>
          <label for="look-text">{words.look.prompt}</label>
          <label class="check">
            <input type="checkbox" checked={chat} onChange={(e) => setChat(e.currentTarget.checked)} />
            {words.look.asChat}
          </label>
        </header>
        <textarea id="look-text" rows={3} dir="auto" value={text} spellcheck={false} onInput={(e) => setText(e.currentTarget.value)} />
        {hasContinuation && (
          <>
            <label for="look-completion">{words.look.completion}</label>
            <input id="look-completion" dir="auto" value={completion} spellcheck={false} onInput={(e) => setCompletion(e.currentTarget.value)} />
          </>
        )}
        <p class="hint" role="status">
          {busy ? words.look.computing : look ? words.look.modelSummary(look.model) : ""}
        </p>
        <ErrorMessage error={error} onRetry={() => setTries(tries + 1)} />
      </section>
      {look && (
        <>
          <TokensCard look={look} />
          {look.next && look.next.length > 0 && (
            <NextCard
              key={look.model.name}
              next={look.next}
              onWrite={
                decoder ? (token) => (hasContinuation ? setCompletion(completion + token) : setText(text + token)) : undefined
              }
            />
          )}
          {result && rows && <AttentionCard look={look} subject={result.subject} />}
          {look.routing && <RoutingCard routing={look.routing} tokens={look.tokens} />}
          {look.positions && look.positions.length > 0 && <PositionsCard positions={look.positions} />}
        </>
      )}
    </div>
  );
}
