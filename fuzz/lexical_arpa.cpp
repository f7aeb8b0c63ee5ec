// Any bytes as an ARPA file: a model whose probabilities are numbers and that can be written and read again,
// or a bounded error.
#include <cmath>

#include "lexical/arpa.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(lexical_arpa) {
  auto stream = ByteStream::from_memory({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!stream.ok()) return 0;
  const auto model = read_arpa(LineReader(std::move(*stream)));
  if (!model.ok()) {
    check(model.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  NgramModel::State state = model->start();
  for (uint32_t word = 0; word < model->words().size(); ++word)
    check(!std::isnan(model->step(state, word).log_prob), "a log-probability is a number");
  std::string written;
  check(write_arpa(*model, [&](std::string_view text) -> Status { return written += text, Done{}; }).ok(),
        "a model can be written");
  auto rewritten = ByteStream::from_memory(written, "again");
  check(rewritten.ok() && read_arpa(LineReader(std::move(*rewritten))).ok(), "a written model can be read");
  return 0;
}
