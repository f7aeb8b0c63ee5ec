// ARPA files of n-gram models, as SRILM, KenLM and IRSTLM write them.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "data/line_reader.h"
#include "lexical/ngram_model.h"

namespace makar {

// Needs the counts of the header, every n-gram's first words as an n-gram, finite numbers and probabilities
// of at most 1. Errors name the line.
Result<NgramModel> read_arpa(LineReader lines);
Result<NgramModel> load_arpa(const std::string& path);

// Numbers are written so that they read back the same. `write` gets pieces of the file in order.
Status write_arpa(const NgramModel& model, const std::function<Status(std::string_view)>& write);
Status save_arpa(const NgramModel& model, const std::string& path);

}  // namespace makar
