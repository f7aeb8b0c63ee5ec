// Any bytes as a TREC run or as judgements (selected by the first byte): finite scores or a located error.
#include <cmath>

#include "data/trec.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(data_trec) {
  if (size < 1) return 0;
  auto stream = ByteStream::from_memory({reinterpret_cast<const char*>(data) + 1, size - 1}, "fuzz");
  if (!stream.ok()) return 0;
  LineReader lines(std::move(*stream));
  const auto read = data[0] % 2 ? read_trec_run(std::move(lines)) : read_judgements(std::move(lines));
  if (!read.ok()) {
    check(read.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  for (const ScoredDocument& d : *read)
    check(std::isfinite(d.score) && !d.query.empty() && !d.document.empty(), "a complete line");
  return 0;
}
