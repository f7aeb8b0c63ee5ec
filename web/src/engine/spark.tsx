// A small curve of the last minute.
const width = 200;
const height = 44;

export function Spark({ values, capacity, label }: { values: number[]; capacity: number; label: string }) {
  const top = Math.max(1e-9, ...values);
  const x = (i: number) => width - ((values.length - 1 - i) / (capacity - 1)) * width;
  const y = (v: number) => height - 2 - (v / top) * (height - 6);
  const line = values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      {values.length > 1 && (
        <>
          <path class="area" d={`${line}L${width} ${height}L${x(0).toFixed(1)} ${height}Z`} />
          <path class="line" d={line} />
        </>
      )}
    </svg>
  );
}
