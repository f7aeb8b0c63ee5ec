// Rating: the studies, the rater's name, and the open study.
import { useEffect, useState } from "preact/hooks";
import { call, download, get } from "../api";
import { saveSetting, loadSetting } from "../state";
import { number, words } from "../strings";
import type { StudyReport } from "../types";
import { ErrorMessage } from "../ui/controls";
import { namedScales, RateItem } from "./rate_item";

interface ListedStudy {
  name: string;
  items?: number;
  ratings?: number;
  error?: string;
}

function Report({ study }: { study: string }) {
  const [report, setReport] = useState<StudyReport | null>(null);
  const [error, setError] = useState<unknown>(null);
  const path = `/makar/ratings/${encodeURIComponent(study)}`;
  const load = () => void get<StudyReport>(`${path}/report`).then(setReport, setError);
  const save = () =>
    void call(`${path}/preferences.jsonl`)
      .then((response) => response.text())
      .then((text) => download(`${study}.preferences.jsonl`, text, "application/jsonl"), setError);
  const figure = (value: number | null | undefined) => (value === null || value === undefined ? "–" : number(value, { min: 2, max: 2 }));
  return (
    <details class="report" onToggle={(e) => e.currentTarget.open && load()}>
      <summary>{words.evaluate.report}</summary>
      <ErrorMessage error={error} />
      {report && (
        <>
          <dl class="figures">
            <div>
              <dt>{words.evaluate.raters}</dt>
              <dd>{report.raters}</dd>
            </div>
            <div>
              <dt>{words.evaluate.ratings}</dt>
              <dd>{report.ratings}</dd>
            </div>
            <div>
              <dt>{words.evaluate.kappa}</dt>
              <dd>{figure(report.agreement.kappa ?? report.agreement.scale_kappa)}</dd>
            </div>
          </dl>
          <div class="wide">
            <table>
              <thead>
                <tr>
                  <th scope="col">{words.evaluate.system}</th>
                  <th scope="col">{words.evaluate.winRate}</th>
                  {namedScales(report.scales).map(([id, name]) => (
                    <th scope="col" key={id}>
                      {name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {Object.entries(report.systems).map(([name, row]) => (
                  <tr key={name}>
                    <td>{name}</td>
                    <td class="number">{figure(row.win_rate)}</td>
                    {namedScales(report.scales).map(([id]) => (
                      <td class="number" key={id}>
                        {figure(row[id])}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <button type="button" onClick={save}>
            {words.evaluate.exportPreferences}
          </button>
        </>
      )}
    </details>
  );
}

export function Rate({ study }: { study?: string }) {
  const [list, setList] = useState<{ folder: string; studies: ListedStudy[] } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [rater, setRater] = useState(loadSetting("rater", ""));
  useEffect(() => void get<{ folder: string; studies: ListedStudy[] }>("/makar/ratings").then(setList, setError), [study]);
  const open = list?.studies.find((s) => s.name === study && !s.error);
  return (
    <>
      <ErrorMessage error={error} />
      <label class="rater">
        {words.evaluate.rater}{" "}
        <input
          maxLength={40}
          value={rater}
          onInput={(e) => {
            setRater(e.currentTarget.value);
            saveSetting("rater", e.currentTarget.value);
          }}
        />
      </label>
      {list?.studies.length === 0 && (
        <section class="card empty">
          <h2>{words.evaluate.noStudies}</h2>
          <p class="hint">{words.evaluate.noStudiesHint(list.folder)}</p>
          <pre>{'{"prompt": "…", "answers": ["…", "…"], "systems": ["…", "…"]}'}</pre>
        </section>
      )}
      <ul class="studies">
        {list?.studies.map((s) => (
          <li key={s.name}>
            <a href={`#/evaluate/rate/${encodeURIComponent(s.name)}`} aria-current={s.name === study ? "true" : undefined}>
              {s.name}
            </a>{" "}
            <span class="hint">{s.error ?? words.evaluate.studySize(s.items ?? 0, s.ratings ?? 0)}</span>
          </li>
        ))}
      </ul>
      {open && !rater.trim() && <p class="hint">{words.evaluate.raterNeeded}</p>}
      {open && rater.trim() && <RateItem key={open.name} study={open.name} rater={rater.trim()} />}
      {open && <Report key={`report ${open.name}`} study={open.name} />}
    </>
  );
}
