// One item of a study: answers side by side without names, and the form for their ratings.
import { useEffect, useState } from "preact/hooks";
import { post } from "../api";
import { words } from "../strings";
import type { StudyStep } from "../types";
import { ErrorMessage } from "../ui/controls";

// The scales of an item and their names on the page; scales that the page does not know keep their id as name.
export function namedScales(ids: string[] | undefined): [string, string][] {
  const names = [...words.evaluate.scales, ...words.evaluate.qualities];
  if (!ids) return words.evaluate.scales;
  return ids.map((id) => [id, names.find(([known]) => known === id)?.[1] ?? id]);
}

const letter = (i: number) => String.fromCharCode(65 + i);
type Scales = Record<string, number>;

interface RadiosProps {
  label: string;
  name: string;
  options: [number, string][];
  value: number | undefined;
  onChange: (value: number) => void;
}
function Radios({ label, name, options, value, onChange }: RadiosProps) {
  return (
    <div class="radios">
      <span aria-hidden="true">{label}</span>
      <fieldset class="choice">
        <legend>{label}</legend>
        {options.map(([number, text]) => (
          <label key={number} class={number === value ? "on" : ""}>
            <input type="radio" name={name} checked={number === value} onChange={() => onChange(number)} />
            {text}
          </label>
        ))}
      </fieldset>
    </div>
  );
}

const numberedOptions = (n: number): [number, string][] => Array.from({ length: n }, (_, i) => [i + 1, String(i + 1)]);

export function RateItem({ study, rater }: { study: string; rater: string }) {
  const path = `/makar/ratings/${encodeURIComponent(study)}`;
  const [step, setStep] = useState<StudyStep | null>(null);
  const [ranks, setRanks] = useState<(number | undefined)[]>([]);
  const [scales, setScales] = useState<Scales[]>([]);
  const [correction, setCorrection] = useState("");
  const [critique, setCritique] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);

  const load = async (after: number) => {
    const found = await post<StudyStep>(`${path}/next`, { rater, after });
    const count = found.answers?.length ?? 0;
    setRanks(Array(count).fill(undefined));
    setScales(Array.from({ length: count }, () => ({})));
    setCorrection("");
    setCritique("");
    setStep(found);
  };
  useEffect(() => {
    setStep(null);
    load(-1).catch(setError);
  }, [rater]);

  if (!step) return <ErrorMessage error={error} />;
  const { item, answers, kind, prompt } = step;
  if (item === undefined || !answers || !kind) return <p role="status">{words.evaluate.allRated(step.total)}</p>;

  const scaleNames = namedScales(step.scales);
  const hasAllScales = scales.every((s) => scaleNames.every(([id]) => s[id] !== undefined));
  const hasAnyScale = scales.some((s) => Object.keys(s).length > 0);
  const hasAllRanks = ranks.every((r) => r !== undefined);
  // Next to a comparison, the scales are optional, but all or none must be filled in.
  const complete = kind === "scale" ? hasAllScales : hasAllRanks && (hasAllScales || !hasAnyScale);
  const submit = async () => {
    setBusy(true);
    try {
      await post(path, {
        rater,
        item,
        ...(kind === "scale" ? {} : { ranks }),
        ...(hasAllScales ? { scales } : {}),
        ...(correction.trim() ? { correction } : {}),
        ...(critique.trim() ? { critique } : {}),
      });
      await load(item);
      setError(null);
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  const messages = typeof prompt === "string" ? [{ role: "", content: prompt }] : (prompt ?? []);
  const pair: [number, string][] = [
    [1, words.evaluate.better("A")],
    [0, words.evaluate.tie],
    [2, words.evaluate.better("B")],
  ];
  const pairValue = hasAllRanks ? (ranks[0] === ranks[1] ? 0 : ranks[0] === 1 ? 1 : 2) : undefined;
  return (
    <form
      class="rate"
      onSubmit={(e) => {
        e.preventDefault();
        if (complete && !busy) void submit();
      }}
    >
      <p class="hint" role="status">
        {words.evaluate.progress(step.done, step.total)}
      </p>
      <section class="card prompt" aria-label={words.evaluate.prompt}>
        {messages.map((m, i) => (
          <p key={i}>
            {m.role && <strong>{m.role}: </strong>}
            {m.content}
          </p>
        ))}
      </section>
      <div class="answers">
        {answers.map((text, i) => (
          <section class="card" key={`${item} ${i}`} aria-label={words.evaluate.answer(letter(i))}>
            <h3>{words.evaluate.answer(letter(i))}</h3>
            <p class="text">{text}</p>
            {kind === "rank" && (
              <Radios
                label={words.evaluate.rank}
                name={`rank ${i}`}
                options={numberedOptions(answers.length)}
                value={ranks[i]}
                onChange={(value) => setRanks(ranks.map((r, j) => (j === i ? value : r)))}
              />
            )}
            {scaleNames.map(([id, name]) => (
              <Radios
                key={id}
                label={name}
                name={`${id} ${i}`}
                options={numberedOptions(5)}
                value={scales[i]?.[id]}
                onChange={(value) => setScales(scales.map((s, j) => (j === i ? { ...s, [id]: value } : s)))}
              />
            ))}
          </section>
        ))}
      </div>
      {kind === "pair" && (
        <Radios
          label={words.evaluate.whichIsBetter}
          name="pair"
          options={pair}
          value={pairValue}
          onChange={(value) => setRanks(value === 0 ? [1, 1] : value === 1 ? [1, 2] : [2, 1])}
        />
      )}
      <label>
        {words.evaluate.correction}
        <textarea rows={3} maxLength={16000} value={correction} onInput={(e) => setCorrection(e.currentTarget.value)} />
      </label>
      <label>
        {words.evaluate.critique}
        <textarea rows={2} maxLength={16000} value={critique} onInput={(e) => setCritique(e.currentTarget.value)} />
      </label>
      <ErrorMessage error={error} />
      <div class="rate-end">
        <button class="primary" disabled={!complete || busy}>
          {words.evaluate.submit}
        </button>
        <button type="button" disabled={busy} onClick={() => void load(item).catch(setError)}>
          {words.evaluate.skip}
        </button>
      </div>
    </form>
  );
}
