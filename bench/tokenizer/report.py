"""One line of results: makar's figures and a peer's."""
import json
import statistics


def spread(values):
    q = statistics.quantiles(values, n=4) if len(values) > 2 else [min(values), 0, max(values)]
    return (q[2] - q[0]) / 2 / statistics.median(values)


def report(args, case, threads, makar_values, peer, peer_values, unit, better, extra=None):
    """better: 1 when larger figures are better, -1 when smaller ones are."""
    a, b = statistics.median(makar_values), statistics.median(peer_values)
    line = {"bench": "tokenize", "case": case, "threads": threads, "makar_value": round(a, 3), "peer": peer, "peer_value": round(b, 3),
            "unit": unit, "ratio": round((a / b) ** better, 2), "spread": round(spread(makar_values), 3), **(extra or {})}
    if args.json:
        print(json.dumps(line), flush=True)
    else:
        notes = "".join(f", {k} {v}" for k, v in (extra or {}).items())
        print(f"{case:<30} {threads} thread{'s' if threads > 1 else ' '}  makar {a:9.2f} {unit:<5} {peer:<14} {b:8.2f}  {line['ratio']:6.2f} times{notes}", flush=True)
