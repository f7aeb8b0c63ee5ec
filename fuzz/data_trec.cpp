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
  const auto documents = data[0] % 2 ? read_trec_run(std::move(lines)) : read_judgements(std::move(lines));
  if (!documents.ok()) {
    check(documents.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  for (const ScoredDocument& d : *documents)
    check(std::isfinite(d.score) && !d.query.empty() && !d.document.empty(),
          "a line has a query, a document and a score");
  return 0;
}
